use std::any::Any;

use ringfence_testkit::{Caller, Fixture};
use serde_json::Value;

/// One way out of the box, the answer that it must get, and the proof that the answer comes from the box.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Unique name.
    pub(crate) name: &'static str,
    /// Section of the specification that closes this way.
    pub(crate) spec: &'static str,
    /// Makes what the act needs.
    pub(crate) setup: fn(&Fixture) -> Setup,
    /// Options of `ringfence run`.
    pub(crate) flags: &'static [&'static str],
    /// Variables set outside, around the whole run.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// Words before the program that starts everything, e.g. a shell that redirects.
    pub(crate) prefix: &'static [&'static str],
    /// The probe's act.
    pub(crate) act: &'static [&'static str],
    /// The answer that counts as closed.
    pub(crate) closed: Closed,
    /// The proof.
    pub(crate) control: Control,
    /// Whether the proof needs root, since the act takes a privilege outside.
    pub(crate) control_as_root: bool,
    /// The only caller for whom the row makes sense.
    pub(crate) only: Option<Caller>,
    /// A path without which this machine has nothing to attack.
    pub(crate) exists: Option<&'static str>,
    /// Whether a kernel may have been built without what is attacked, and then answers like the box.
    pub(crate) kernel_may_lack_it: bool,
}

/// The answer inside the box that counts as closed.
#[derive(Clone, Copy)]
pub(crate) enum Closed {
    /// The act fails with one of these.
    Errno(&'static [i32]),
    /// The act fails, or what it yields does not hold the secret.
    Hidden,
    /// The act fails or yields an empty text.
    Empty,
    /// The act is done and yields a state of which this holds.
    State(fn(&Value) -> bool),
    /// The act's process is ended by this signal.
    Signal(i32),
}

/// What proves that the same act is not refused outside.
#[derive(Clone, Copy)]
pub(crate) enum Control {
    /// The same act works outside. For [`Closed::State`]: it is done and the state is another one.
    Works,
    /// The act can't work outside either (the machine would suffer, or the kernel was built without it); its
    /// answer outside is another one, so that the one inside comes from the box.
    Differs,
    /// This act stands for it outside and works: the same call on another object.
    Act(&'static [&'static str]),
}

/// What a row's act needs while it runs.
#[derive(Default)]
pub(crate) struct Setup {
    /// Servers and processes, ended when this is dropped.
    pub(crate) kept: Vec<Box<dyn Any>>,
    /// Names in braces that the row's words may hold, besides those of [`Fixture::expand`].
    pub(crate) names: Vec<(&'static str, String)>,
    /// Why there is nothing to attack on this machine or by this caller.
    pub(crate) moot: Option<&'static str>,
}

impl Setup {
    /// There is nothing to attack.
    pub(crate) fn moot(why: &'static str) -> Self {
        Self { moot: Some(why), ..Self::default() }
    }

    /// Keeps something alive until the act is over.
    pub(crate) fn keep(mut self, kept: impl Any) -> Self {
        self.kept.push(Box::new(kept));
        self
    }

    /// Defines a name.
    pub(crate) fn name(mut self, name: &'static str, value: impl ToString) -> Self {
        self.names.push((name, value.to_string()));
        self
    }
}

/// A row in the default mode whose act works outside.
pub(crate) const fn row(
    name: &'static str,
    spec: &'static str,
    act: &'static [&'static str],
    closed: Closed,
) -> Row {
    Row {
        name,
        spec,
        setup: |_| Setup::default(),
        flags: &[],
        env: &[],
        prefix: &[],
        act,
        closed,
        control: Control::Works,
        control_as_root: false,
        only: None,
        exists: None,
        kernel_may_lack_it: false,
    }
}

impl Row {
    pub(crate) const fn setup(mut self, setup: fn(&Fixture) -> Setup) -> Self {
        self.setup = setup;
        self
    }

    pub(crate) const fn flags(mut self, flags: &'static [&'static str]) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) const fn env(mut self, env: &'static [(&'static str, &'static str)]) -> Self {
        self.env = env;
        self
    }

    pub(crate) const fn prefix(mut self, prefix: &'static [&'static str]) -> Self {
        self.prefix = prefix;
        self
    }

    pub(crate) const fn differs(mut self) -> Self {
        self.control = Control::Differs;
        self
    }

    pub(crate) const fn control(mut self, act: &'static [&'static str]) -> Self {
        self.control = Control::Act(act);
        self
    }

    pub(crate) const fn control_as_root(mut self) -> Self {
        self.control_as_root = true;
        self
    }

    pub(crate) const fn only(mut self, caller: Caller) -> Self {
        self.only = Some(caller);
        self
    }

    pub(crate) const fn exists(mut self, path: &'static str) -> Self {
        self.exists = Some(path);
        self
    }

    pub(crate) const fn kernel_may_lack_it(mut self) -> Self {
        self.kernel_may_lack_it = true;
        self
    }
}
