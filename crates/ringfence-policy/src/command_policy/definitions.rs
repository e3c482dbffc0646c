//! Names that a text gives to other texts.

use std::collections::BTreeMap;

/// Functions and aliases by name, with the text that runs in their place.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    texts: BTreeMap<Vec<u8>, (Vec<u8>, bool)>,
    calls: usize,
}

impl Definitions {
    const TEXT_LIMIT: usize = 4096;
    const COUNT_LIMIT: usize = 64;

    pub(super) fn define(&mut self, name: &[u8], text: &[u8], alias: bool) {
        if text.len() <= Self::TEXT_LIMIT && self.texts.len() < Self::COUNT_LIMIT && !name.is_empty() {
            self.texts.insert(name.to_vec(), (text.to_vec(), alias));
        }
    }

    /// The text that a call runs, and whether it is an alias.
    pub(super) fn call(&mut self, name: &[u8]) -> Called {
        let Some(found) = self.texts.get(name) else { return Called::Nothing };
        if self.calls >= Self::COUNT_LIMIT {
            return Called::TooOften;
        }
        self.calls += 1;
        Called::Text(found.0.clone(), found.1)
    }

    /// The name that an alias of PowerShell stands for.
    pub(super) fn alias(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.texts.get(name).map(|(text, _)| text.clone())
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.texts.contains_key(name)
    }

    /// A text of its own doesn't see them.
    pub(super) fn forget(&mut self) {
        self.texts.clear();
    }
}

/// What a name stands for.
pub(super) enum Called {
    Nothing,
    Text(Vec<u8>, bool),
    /// Only so many calls are followed: the definition has been read already, what is new are the arguments.
    TooOften,
}
