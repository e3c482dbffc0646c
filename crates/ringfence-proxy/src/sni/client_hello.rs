//! The parts of a TLS ClientHello that name the server (RFC 8446, sections 4.1.2 and 5.1; RFC 6066, section 3).

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Not enough to tell.
    Incomplete,
    /// Something else than TLS.
    NotTls,
    /// The start of TLS, then nothing that makes sense.
    Malformed(&'static str),
    /// A complete ClientHello.
    Hello {
        /// The server's name as it was sent.
        name: Option<String>,
        /// Whether the real one is in an encrypted part.
        encrypted: bool,
    },
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_LIMIT: usize = 1 << 14;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// Looks for the server's name.
pub(crate) fn find(bytes: &[u8]) -> Found {
    match bytes {
        [] | [HANDSHAKE] | [HANDSHAKE, 3] => return Found::Incomplete,
        // The minor version is to be ignored (RFC 8446, section 5.1).
        [HANDSHAKE, 3, ..] => {}
        _ => return Found::NotTls,
    }
    match handshake(bytes) {
        Ok(Some(message)) => hello(&message).unwrap_or(Found::Malformed("breaks off")),
        Ok(None) => Found::Incomplete,
        Err(what) => Found::Malformed(what),
    }
}

/// The body of the first handshake message, put together from its records; `None` if more is to come.
fn handshake(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    let mut message = Vec::new();
    loop {
        if let [kind, a, b, c, body @ ..] = message.as_slice() {
            if *kind != CLIENT_HELLO {
                return Err("is another message");
            }
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if let Some(body) = body.get(..length) {
                return Ok(Some(body.to_vec()));
            }
        }
        let [kind, major, _, high, low, rest @ ..] = bytes else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != HANDSHAKE || *major != 3 || length == 0 || length > RECORD_LIMIT {
            return Err("is no sequence of records");
        }
        let available = rest.len().min(length);
        message.extend_from_slice(&rest[..available]);
        bytes = &rest[available..];
        if available < length {
            // The message may be complete although its last record is not.
            bytes = &[];
        }
        if bytes.is_empty() && !complete(&message) {
            return Ok(None);
        }
    }
}

fn complete(message: &[u8]) -> bool {
    match message {
        [_, a, b, c, body @ ..] => {
            body.len() >= usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c)
        }
        _ => false,
    }
}

/// `None` if a length leads out of the message.
fn hello(message: &[u8]) -> Option<Found> {
    let mut reader = Reader(message);
    reader.take(2 + 32)?;
    reader.vector8()?;
    reader.vector16()?;
    reader.vector8()?;
    let mut name = None;
    let mut encrypted = false;
    if reader.0.is_empty() {
        return Some(Found::Hello { name, encrypted });
    }
    let mut extensions = Reader(reader.vector16()?);
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let body = extensions.vector16()?;
        match kind {
            SERVER_NAME if name.is_some() => return Some(Found::Malformed("names two servers")),
            SERVER_NAME => {
                let mut list = Reader(Reader(body).vector16()?);
                // One entry of the one kind that there is, host_name.
                let (0, host) = (list.take(1)?[0], list.vector16()?) else {
                    return Some(Found::Malformed("names no host"));
                };
                if !list.0.is_empty() {
                    return Some(Found::Malformed("names two servers"));
                }
                name = Some(String::from_utf8_lossy(host).into_owned());
            }
            ENCRYPTED_CLIENT_HELLO => encrypted = true,
            _ => {}
        }
    }
    Some(Found::Hello { name, encrypted })
}

/// Takes values from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|two| u16::from_be_bytes([two[0], two[1]]))
    }

    /// A vector with its length in one byte.
    fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }

    /// A vector with its length in two bytes.
    fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn vector16(body: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(body);
        bytes
    }

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().to_vec(), vector16(body)].concat()
    }

    fn server_name(name: &[u8]) -> Vec<u8> {
        extension(SERVER_NAME, &vector16(&[&[0], vector16(name).as_slice()].concat()))
    }

    /// A handshake message with these extensions.
    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(vector16(&extensions.concat()));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], &body].concat()
    }

    fn record(fragment: &[u8]) -> Vec<u8> {
        [&[HANDSHAKE, 3, 1], vector16(fragment).as_slice()].concat()
    }

    /// A ClientHello for a server, in one record.
    pub(crate) fn client_hello(name: &str) -> Vec<u8> {
        record(&message(&[extension(0x2b, &[2, 3, 4]), server_name(name.as_bytes())]))
    }

    fn named(name: &str) -> Found {
        Found::Hello { name: Some(name.to_owned()), encrypted: false }
    }

    #[test]
    fn the_name_is_found_however_the_message_is_cut() {
        let whole = client_hello("a.example");
        for cut in 0..whole.len() {
            assert_eq!(find(&whole[..cut]), Found::Incomplete, "{cut}");
        }
        assert_eq!(find(&whole), named("a.example"));
        assert_eq!(find(&[whole.as_slice(), b"more"].concat()), named("a.example"));
        let message = message(&[server_name(b"a.example")]);
        for cut in 1..message.len() {
            let records = [record(&message[..cut]), record(&message[cut..])].concat();
            assert_eq!(find(&records), named("a.example"), "{cut}");
        }
    }

    #[test]
    fn hellos_without_a_name_and_with_an_encrypted_one_are_told_apart() {
        assert_eq!(find(&record(&message(&[]))), Found::Hello { name: None, encrypted: false });
        let both = message(&[server_name(b"front.example"), extension(ENCRYPTED_CLIENT_HELLO, &[0; 9])]);
        assert_eq!(
            find(&record(&both)),
            Found::Hello { name: Some("front.example".into()), encrypted: true }
        );
    }

    #[test]
    fn the_version_of_a_record_says_nothing() {
        for minor in [0, 4, 5, 0xff] {
            let mut bytes = client_hello("a.example");
            bytes[2] = minor;
            assert_eq!(find(&bytes), named("a.example"), "{minor}");
        }
    }

    #[test]
    fn what_is_not_tls_is_known_at_once() {
        for bytes in [&b"GET / HTTP/1.1"[..], b"SSH-2.0", b"\x16\x02", b"\0", b"\x80\x2e\x01\x03\x01"] {
            assert_eq!(find(bytes), Found::NotTls, "{bytes:?}");
        }
    }

    #[test]
    fn malformed_messages_are_told() {
        let malformed = |bytes: &[u8]| matches!(find(bytes), Found::Malformed(_));
        assert!(malformed(&[HANDSHAKE, 3, 1, 0, 0]));
        assert!(malformed(&[HANDSHAKE, 3, 1, 0xff, 0xff]));
        assert!(malformed(&record(&[2, 0, 0, 0])));
        assert!(malformed(&record(&[CLIENT_HELLO, 0, 0, 1, 3])));
        assert!(malformed(&record(&message(&[server_name(b"a"), server_name(b"b")]))));
        let two = vector16(&[&[0], vector16(b"a").as_slice(), &[0], &vector16(b"b")].concat());
        assert!(malformed(&record(&message(&[extension(SERVER_NAME, &two)]))));
        assert!(malformed(&record(&message(&[extension(SERVER_NAME, &[0, 9, 0])]))));
        let mut between = client_hello("a.example");
        between.truncate(20);
        let split = [record(&between[5..]), vec![23, 3, 3, 0, 1, 0]].concat();
        assert!(malformed(&split));
    }
}
