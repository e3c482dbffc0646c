use std::rc::Rc;

use super::Around;
use crate::command_policy::state::{Scan, Upstream};
use crate::command_policy::word::{NOT_EMPTY, Word, program};

/// Tests that leave something out (find(1)).
fn restricts(text: &[u8], value: Option<&Word<'_>>) -> bool {
    match text {
        b"-name" | b"-iname" | b"-path" | b"-ipath" | b"-wholename" | b"-regex" | b"-iregex" => {
            !value.is_some_and(|value| matches!(&*value.text, b"*" | b"**" | b"/*" | b".*"))
        }
        b"-size" | b"-empty" | b"-user" | b"-uid" | b"-group" | b"-gid" | b"-perm" | b"-inum"
        | b"-samefile" | b"-mmin" | b"-amin" | b"-cmin" | b"-mtime" | b"-atime" | b"-ctime" | b"-used"
        | b"-links" | b"-fstype" | b"-nouser" | b"-nogroup" | b"-prune" | b"-false" | b"-lname"
        | b"-ilname" => true,
        _ => text.starts_with(b"-newer"),
    }
}

/// Tests of a file's name. All but one name is nearly everything.
fn names(text: &[u8]) -> bool {
    matches!(text, b"-name" | b"-iname" | b"-path" | b"-ipath" | b"-wholename" | b"-regex" | b"-iregex")
}

/// `find path... expression`: what `-exec` runs gets the paths in the place of `{}`, unless a test leaves files out.
pub(super) fn find(scan: &mut Scan, args: &[Word<'_>], around: &Around<'_>) -> Upstream {
    let mut at = 0;
    while args.get(at).is_some_and(|word| matches!(&*word.text, b"-H" | b"-L" | b"-P")) {
        at += 1;
    }
    let expression = |word: &Word<'_>| matches!(word.text.first(), Some(b'-' | b'(' | b'!' | b')'));
    let start = at;
    at += args[start..].iter().position(expression).unwrap_or(args.len() - start);
    let roots: Vec<Vec<u8>> = args[start..at].iter().take(16).map(|word| word.text.to_vec()).collect();
    let restricted = args[at..].iter().enumerate().any(|(index, word)| {
        let negated = index > 0 && matches!(&*args[at + index - 1].text, b"!" | b"-not");
        word.text.starts_with(b"-")
            && restricts(&word.text, args.get(at + index + 1))
            && !(negated && names(&word.text))
    });
    if !restricted && args[at..].iter().any(|word| word.is("-delete")) {
        let mut words: Vec<_> = args[start..at].to_vec();
        words.push(Word::borrowed(b"-delete"));
        scan.event("@find-delete", &words, around.place);
    }
    let found: Vec<Vec<u8>> = if restricted || roots.is_empty() { vec![vec![NOT_EMPTY]] } else { roots };
    while at < args.len() {
        let own = matches!(
            &*args[at].text,
            b"-exec" | b"-execdir" | b"-ok" | b"-okdir" | b"-x" | b"-X" | b"--exec" | b"--exec-batch"
        );
        at += 1;
        if !own {
            continue;
        }
        let rest = &args[at..];
        let end =
            rest.iter().position(|word| word.is(";") || word.is("\\;") || word.is("+")).unwrap_or(rest.len());
        let words = filled(&rest[..end], &found);
        let inner = Around { stdin: &Rc::default(), ..*around };
        super::run(scan, &words, &inner);
        at += end;
    }
    Upstream { names: if restricted { Vec::new() } else { found }, ..Upstream::default() }
}

fn filled<'a>(words: &[Word<'a>], found: &[Vec<u8>]) -> Vec<Word<'a>> {
    let mut out = Vec::with_capacity(words.len() + found.len());
    for word in words {
        if word.is("{}") {
            out.extend(found.iter().cloned().map(Word::owned));
        } else if let Some(at) = memchr::memmem::find(&word.text, b"{}") {
            let mut text = word.text[..at].to_vec();
            text.extend_from_slice(&found[0]);
            text.extend_from_slice(&word.text[at + 2..]);
            out.push(Word::owned(text));
        } else {
            out.push(word.clone());
        }
    }
    // Each file is deleted by itself, which is as thorough.
    if out.first().is_some_and(|word| &*program(&word.text) == b"rm") {
        out.insert(1, Word::borrowed(b"-r"));
    }
    out
}
