//! A plan alone starts nothing.
use ringfence_gate::OsSandboxDriverTrait;
use ringfence_plan::LaunchPlan;

async fn run(driver: &dyn OsSandboxDriverTrait, plan: LaunchPlan) {
    let _ = driver.run(plan).await;
}

fn main() {}
