//! What a command leaves behind that something outside would run.

use std::fs;
use std::time::Duration;

use ringfence::{DenialKind, Mode, SandboxError};

use super::{Test, World, eventually, runs, runtime, token};

pub(super) const TESTS: &[Test] = &[
    ("a_planted_hook_is_moved_away_and_a_violation", planted),
    ("it_is_moved_away_after_a_dropped_future", dropped),
];

/// A repository with a hook, made without git.
const PLANT: &str = "mkdir -p r/.git/hooks r/.git/objects r/.git/refs && echo ref: refs/heads/main > r/.git/HEAD && \
                     echo '#!/bin/sh' > r/.git/hooks/pre-commit && chmod +x r/.git/hooks/pre-commit";

fn planted() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    let error = runtime().block_on(world.execute(world.command("sh", &["-c", PLANT]))).unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), ("violation", 125));
    let SandboxError::Violation { reasons, output } = error else { unreachable!() };
    assert_eq!(output.exit_code, Some(0));
    let hook = world.work("r/.git/hooks/pre-commit");
    assert!(!hook.exists());
    assert!(reasons.iter().any(|reason| reason.contains(hook.to_str().unwrap())), "{reasons:?}");
    assert!(output.denials.iter().any(|denial| denial.kind == DenialKind::Protected && denial.certain));
    assert!(world.work("r/.git/HEAD").exists(), "the rest of the repository stays");
    let output = world.script("cat r/.git/HEAD");
    assert_eq!(output.exit_code, Some(0), "the next run is none the worse");
}

/// The command plants its hook again and again until it is dead, so that a look before that would be in vain.
fn dropped() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    let token = token();
    let script = format!(
        ": {token}; {PLANT} && touch done && while :; do cp r/.git/HEAD r/.git/hooks/pre-commit; done"
    );
    let runtime = runtime();
    runtime.block_on(async {
        let run = world.execute(world.command("sh", &["-c", &script]));
        let done = async {
            while !world.work("done").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            result = run => panic!("{result:?}"),
            () = done => {}
        }
    });
    eventually("the tree is dead", || !runs(&token));
    let hook = world.work("r/.git/hooks/pre-commit");
    eventually("the hook is moved away", || !hook.exists());
    assert!(fs::exists(world.work("r/.git/HEAD")).unwrap());
}
