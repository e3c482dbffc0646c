//! Time limits, dropped futures, many at once.

use std::sync::Arc;
use std::time::Duration;

use ringfence::{Mode, Sandbox, SandboxError, SandboxOutput};

use super::{Test, World, eventually, runs, runtime, text, token};

pub(super) const TESTS: &[Test] = &[
    ("a_timeout_ends_the_tree_and_keeps_the_output", timeout),
    ("a_dropped_future_ends_the_tree", dropped),
    ("many_runs_at_once_on_either_runtime", many),
    ("a_background_process_ends_with_its_run", background),
];

fn timeout() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    let token = token();
    let script = format!("echo half; sh -c 'sleep 600; : {token}' & sh -c 'sleep 600; : {token}'");
    let mut command = world.command("sh", &["-c", &script]);
    command.timeout = Some(Duration::from_millis(700));
    let error = runtime().block_on(world.execute(command)).unwrap_err();
    let SandboxError::Timeout { output } = error else { panic!("{error:?}") };
    assert_eq!(text(&output.stdout), "half\n");
    assert!(output.layers.iter().count() > 5);
    assert!(!runs(&token), "the whole tree is dead by then");
}

fn dropped() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    let token = token();
    let script = format!("touch begun; sh -c 'sleep 600; : {token}' & sh -c 'sleep 600; : {token}'");
    runtime().block_on(async {
        let run = world.execute(world.command("sh", &["-c", &script]));
        let begun = async {
            while !world.work("begun").exists() || !runs(&token) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            result = run => panic!("{result:?}"),
            () = begun => {}
        }
    });
    eventually("the tree is dead", || !runs(&token));
}

fn many() {
    for threads in [1, 4] {
        let world = World::new(Mode::WorkspaceWrite, &[]);
        let mut builder = match threads {
            1 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(threads).enable_all().build().unwrap();
        let sandbox: Arc<dyn Sandbox> = Arc::new(world.sandbox.clone());
        let outputs: Vec<SandboxOutput> = runtime.block_on(async {
            let tasks: Vec<_> = (0..16)
                .map(|number| {
                    let command = world.command("sh", &["-c", &format!("echo {number}; exit {number}")]);
                    let sandbox = Arc::clone(&sandbox);
                    tokio::spawn(async move { sandbox.execute(command).await.unwrap() })
                })
                .collect();
            let mut outputs = Vec::new();
            for task in tasks {
                outputs.push(task.await.unwrap());
            }
            outputs
        });
        for (number, output) in outputs.iter().enumerate() {
            assert_eq!(text(&output.stdout), format!("{number}\n"));
            assert_eq!(output.exit_code, i32::try_from(number).ok());
        }
    }
}

fn background() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    let token = token();
    let output = world.script(&format!("sh -c 'sleep 600; : {token}' & echo done"));
    assert_eq!((text(&output.stdout), output.exit_code), ("done\n", Some(0)));
    eventually("the background process is dead", || !runs(&token));
}
