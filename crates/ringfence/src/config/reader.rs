use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, ProblemKind};
use crate::nearest::nearest;

/// A value and the line on which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) line: usize,
}

/// Collects the problems of one text.
pub(crate) struct Problems<'a> {
    text: &'a str,
    found: RefCell<Vec<Problem>>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, found: RefCell::default() }
    }

    pub(crate) fn syntax(&self, error: &toml::de::Error) {
        let at = error.span().unwrap_or(0..0);
        self.push(self.line(&at), String::new(), ProblemKind::Syntax(error.message().replace('\n', ", ")));
    }

    /// The problems in the order of their lines.
    pub(crate) fn into_sorted(self) -> Vec<Problem> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|problem| problem.line);
        found
    }

    fn push(&self, line: usize, key: String, kind: ProblemKind) {
        self.found.borrow_mut().push(Problem { line, key, kind });
    }

    fn line(&self, at: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        before.iter().filter(|&&byte| byte == b'\n').count() + 1
    }
}

/// Reads one table. Every key must be asked for by one of the methods or be refused by [`Self::finish`].
pub(crate) struct Reader<'a> {
    problems: &'a Problems<'a>,
    name: String,
    line: usize,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    pub(crate) fn root(problems: &'a Problems<'a>, table: &'a DeTable<'a>) -> Self {
        Self { problems, name: String::new(), line: 1, table, known: Vec::new() }
    }

    fn below(&self, key: &str, value: &Spanned<DeValue<'_>>, table: &'a DeTable<'a>) -> Self {
        let line = self.problems.line(&value.span());
        Self { problems: self.problems, name: self.join(key), line, table, known: Vec::new() }
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<Setting<bool>> {
        self.get(key, "a boolean", |value| value.as_bool())
    }

    pub(crate) fn string(&mut self, key: &'static str) -> Option<Setting<String>> {
        self.get(key, "a string", |value| value.as_str().map(str::to_owned))
    }

    /// One string, or several in an array.
    pub(crate) fn one_or_more(&mut self, key: &'static str) -> Option<Setting<Vec<String>>> {
        self.get(key, "a string or an array of strings", |value| match value.as_str() {
            Some(one) => Some(vec![one.to_owned()]),
            None => value.as_array()?.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect(),
        })
    }

    pub(crate) fn strings(&mut self, key: &'static str) -> Option<Setting<Vec<String>>> {
        self.get(key, "an array of strings", |value| {
            value.as_array()?.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
        })
    }

    /// A whole number within `range`.
    pub(crate) fn integer(&mut self, key: &'static str, range: Range<u64>) -> Option<Setting<u64>> {
        let setting = self.get(key, "a whole number", |value| {
            let integer = value.as_integer()?;
            // A number that fits no i64 or is negative has the right type; its range is refused below.
            Some(u64::from_str_radix(integer.as_str(), integer.radix()).ok())
        })?;
        match setting.value.filter(|value| range.contains(value)) {
            Some(value) => Some(Setting { value, line: setting.line }),
            None => {
                let expected = if range.end == u64::MAX {
                    format!("a whole number of at least {}", range.start)
                } else {
                    format!("a whole number from {} to {}", range.start, range.end - 1)
                };
                self.invalid(setting.line, key, expected);
                None
            }
        }
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<Setting<T>> {
        let setting = self.string(key)?;
        match words.iter().find(|(word, _)| *word == setting.value) {
            Some((_, value)) => Some(Setting { value: *value, line: setting.line }),
            None => {
                self.invalid(setting.line, key, format!("{}, found \"{}\"", list(words), setting.value));
                None
            }
        }
    }

    /// A table whose keys are names of the user's choice and whose values are words.
    pub(crate) fn words<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<Setting<BTreeMap<String, T>>> {
        self.known.push(key);
        let (_, value) = self.entry(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, "a table");
            return None;
        };
        let mut found = BTreeMap::new();
        for (name, value) in table.iter() {
            let path = format!("{key}.{}", name.get_ref());
            match value.get_ref().as_str() {
                Some(text) => match words.iter().find(|(word, _)| *word == text) {
                    Some((_, meaning)) => {
                        found.insert(name.get_ref().to_string(), *meaning);
                    }
                    None => {
                        let expected = format!("{}, found \"{text}\"", list(words));
                        self.invalid(self.problems.line(&value.span()), &path, expected);
                    }
                },
                None => self.wrong_type(&path, value, "a string"),
            }
        }
        Some(Setting { value: found, line: self.problems.line(&value.span()) })
    }

    /// A table below this one, handed to `read`.
    pub(crate) fn table<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Option<T> {
        self.known.push(key);
        let (_, value) = self.entry(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, "a table");
            return None;
        };
        let mut reader = self.below(key, value, table);
        let result = read(&mut reader);
        reader.finish();
        Some(result)
    }

    /// An array of tables.
    pub(crate) fn array_of_tables<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Reader<'_>) -> T,
    ) -> Vec<T> {
        self.known.push(key);
        let Some((_, value)) = self.entry(key) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(key, value, "an array of tables");
            return Vec::new();
        };
        let mut found = Vec::new();
        for (at, item) in array.iter().enumerate() {
            let path = format!("{key}[{at}]");
            let Some(table) = item.get_ref().as_table() else {
                self.wrong_type(&path, item, "a table");
                continue;
            };
            let mut reader = self.below(&path, item, table);
            found.push(read(&mut reader));
            reader.finish();
        }
        found
    }

    /// A table whose keys are names of the user's choice, each with a table of its own.
    pub(crate) fn tables<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&str, &mut Reader<'_>) -> T,
    ) -> BTreeMap<String, T> {
        self.known.push(key);
        let mut tables = BTreeMap::new();
        let Some((_, outer)) = self.entry(key) else { return tables };
        let Some(named) = outer.get_ref().as_table() else {
            self.wrong_type(key, outer, "a table");
            return tables;
        };
        for (name, value) in named.iter() {
            let path = format!("{key}.{}", name.get_ref());
            let Some(table) = value.get_ref().as_table() else {
                self.wrong_type(&path, value, "a table");
                continue;
            };
            let mut reader = self.below(&path, value, table);
            tables.insert(name.get_ref().to_string(), read(name.get_ref(), &mut reader));
            reader.finish();
        }
        tables
    }

    /// Keys and tables of a feature that is not there yet: named, never ignored.
    pub(crate) fn not_available(&mut self, keys: &[&'static str], feature: &'static str) {
        for &key in keys {
            self.known.push(key);
            if let Some((name, _)) = self.entry(key) {
                let line = self.problems.line(&name.span());
                self.problems.push(line, self.join(key), ProblemKind::NotAvailable { feature });
            }
        }
    }

    pub(crate) fn invalid(&self, line: usize, key: &str, expected: String) {
        self.problems.push(line, self.join(key), ProblemKind::Invalid { expected });
    }

    /// The table as a whole can't be used.
    pub(crate) fn refuse_table(&self, expected: String) {
        self.problems.push(self.line, self.name.clone(), ProblemKind::Invalid { expected });
    }

    /// Reports the keys that nobody asked for.
    pub(crate) fn finish(self) {
        for (name, _) in self.table.iter() {
            let key: &str = name.get_ref();
            if !self.known.contains(&key) {
                let nearest = nearest(key, self.known.iter().copied()).map(str::to_owned);
                let line = self.problems.line(&name.span());
                self.problems.push(line, self.join(key), ProblemKind::UnknownKey { nearest });
            }
        }
    }

    fn get<T>(
        &mut self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<Setting<T>> {
        self.known.push(key);
        let (_, value) = self.entry(key)?;
        match read(value.get_ref()) {
            Some(found) => Some(Setting { value: found, line: self.problems.line(&value.span()) }),
            None => {
                self.wrong_type(key, value, expected);
                None
            }
        }
    }

    fn entry(&self, key: &str) -> Option<(&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>)> {
        self.table.iter().find(|(name, _)| name.get_ref() == key)
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &'static str) {
        let found = match value.get_ref() {
            DeValue::Array(_) if expected.starts_with("an array") => "an array with other values",
            other => other.type_str(),
        };
        let line = self.problems.line(&value.span());
        self.problems.push(line, self.join(key), ProblemKind::WrongType { expected, found });
    }

    fn join(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

fn list<T>(words: &[(&str, T)]) -> String {
    let quoted: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    quoted.join(" or ")
}
