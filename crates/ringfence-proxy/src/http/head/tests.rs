use super::*;

fn parsed(text: &str) -> Result<Head, String> {
    parse(text.as_bytes()).map_err(|error| error.to_string())
}

/// A GET with these further lines.
fn get(lines: &str) -> Result<Head, String> {
    parsed(&format!("GET http://a.com/x HTTP/1.1\r\n{lines}\r\n"))
}

#[track_caller]
fn refused(result: Result<Head, String>, why: &str) {
    match result {
        Ok(head) => panic!("accepted: {head:?}"),
        Err(error) => assert!(error.contains(why), "{error}"),
    }
}

#[test]
fn a_tunnel_is_asked_for() {
    let head = parsed("CONNECT API.example.com:8443 HTTP/1.1\r\nHost: api.example.com:8443\r\n\r\n").unwrap();
    assert_eq!(
        (head.form, head.host.to_string(), head.port),
        (Form::Connect, "api.example.com".into(), 8443)
    );
    for text in [
        "CONNECT a.com:443 HTTP/1.0\r\n\r\n",
        "CONNECT a.com:443 HTTP/1.1\r\n\r\n",
        "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n",
        "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:DB8:0::1]:443\r\nContent-Length: 0\r\n\r\n",
    ] {
        assert!(parsed(text).is_ok(), "{text}");
    }
}

#[test]
fn a_plain_request_is_asked_for() {
    let head = get("Host: a.com\r\nContent-Length: 3\r\n").unwrap();
    assert_eq!((head.form, head.host.to_string(), head.port), (Form::Absolute, "a.com".into(), 80));
    assert!(get("Host: A.com:80\r\nTransfer-Encoding: Chunked\r\n").is_ok());
    assert!(parsed("GET http://a.com:8080?q=@ HTTP/1.1\r\nHost: a.com:8080\r\n\r\n").is_ok());
    assert!(parsed("GET HTTP://a.com HTTP/1.0\r\n\r\n").is_ok());
}

#[test]
fn two_readings_of_the_length_are_refused() {
    refused(get("Host: a.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "both");
    refused(get("Host: a.com\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n"), "both");
    refused(get("Host: a.com\r\nContent-Length: 5\r\nContent-Length: 5\r\n"), "more than one");
    for value in ["+5", "-5", "5, 5", "0x5", "", "5 5", "99999999999999999999"] {
        refused(get(&format!("Host: a.com\r\nContent-Length: {value}\r\n")), "malformed Content-Length");
    }
    for value in ["gzip", "chunked, chunked", "identity", "xchunked", "chunked;x", "gzip, chunked"] {
        refused(get(&format!("Host: a.com\r\nTransfer-Encoding: {value}\r\n")), "transfer coding");
    }
    refused(
        get("Host: a.com\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        "transfer coding",
    );
    refused(parsed("GET http://a.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), "transfer coding");
    refused(parsed("CONNECT a.com:1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n"), "no body");
    refused(parsed("CONNECT a.com:1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), "no body");
}

#[test]
fn two_readings_of_the_host_are_refused() {
    refused(get(""), "exactly one Host");
    refused(get("Host: a.com\r\nHost: a.com\r\n"), "exactly one Host");
    refused(get("Host: b.com\r\n"), "another host");
    refused(get("Host: a.com:81\r\n"), "another host");
    refused(get("Host: a.com, b.com\r\n"), "another host");
    refused(get("Host:\r\n"), "another host");
    refused(parsed("CONNECT a.com:443 HTTP/1.1\r\nHost: b.com:443\r\n\r\n"), "another host");
    refused(parsed("CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:444\r\n\r\n"), "another host");
    refused(parsed("GET http://u@a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n"), "user information");
    refused(parsed("GET http://b.com:80@a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n"), "user information");
    refused(parsed("CONNECT u:p@a.com:443 HTTP/1.1\r\n\r\n"), "user information");
    refused(parsed("GET http://a.com\\@b.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n"), "malformed host");
    refused(parsed("GET http://a.com#@b.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n"), "malformed host");
}

#[test]
fn bad_targets_are_refused() {
    refused(parsed("CONNECT a.com:0 HTTP/1.1\r\n\r\n"), "malformed host or port");
    refused(parsed("CONNECT a.com HTTP/1.1\r\n\r\n"), "needs a port");
    refused(parsed("CONNECT http://a.com:443/ HTTP/1.1\r\n\r\n"), "malformed host or port");
    refused(parsed("CONNECT 127.1:443 HTTP/1.1\r\n\r\n"), "ambiguous");
    refused(parsed("CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\n\r\n"), "zone");
    refused(parsed("GET http://a.com:0/ HTTP/1.1\r\nHost: a.com:0\r\n\r\n"), "malformed host or port");
    refused(parsed("GET http:///x HTTP/1.1\r\nHost: a.com\r\n\r\n"), "malformed host or port");
    refused(parsed("GET / HTTP/1.1\r\nHost: a.com\r\n\r\n"), "this is a proxy");
    refused(parsed("OPTIONS * HTTP/1.1\r\nHost: a.com\r\n\r\n"), "this is a proxy");
    refused(parsed("GET https://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n"), "use CONNECT");
    refused(parsed("GET ftp://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n"), "only http");
}

#[test]
fn bad_syntax_is_refused() {
    refused(parsed("GET http://a.com/ HTTP/1.1\nHost: a.com\r\n\r\n"), "bare line feed");
    refused(parsed("PRI * HTTP/2.0\r\n\r\n"), "version");
    refused(parsed("GET http://a.com/ HTTP/1.1\r\nHost : a.com\r\n\r\n"), "header name");
    refused(parsed("GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n folded\r\n\r\n"), "not an HTTP request");
    refused(parsed("GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nX: a\0b\r\n\r\n"), "header value");
    let many = "X: y\r\n".repeat(FIELDS + 1);
    refused(get(&many), "too large");
}

#[test]
fn basic_credentials_are_read() {
    let with = |value: &str| get(&format!("Host: a.com\r\nProxy-Authorization: {value}\r\n"));
    assert_eq!(with("Basic dTpw").unwrap().credentials, Some(b"u:p".to_vec()));
    assert_eq!(with("Bearer x").unwrap().credentials, None);
    refused(with("Basic !"), "Proxy-Authorization");
}

#[tokio::test]
async fn a_head_may_come_in_pieces_and_what_follows_stays() {
    let whole = b"CONNECT a.com:443 HTTP/1.1\r\n\r\nearly";
    let mut pieces = tokio_test_pieces(whole);
    let mut buffer = Vec::new();
    let head = read(&mut pieces, &mut buffer, 1024).await.unwrap();
    buffer.extend({
        let mut rest = Vec::new();
        pieces.read_to_end(&mut rest).await.unwrap();
        rest
    });
    assert_eq!(&buffer[head.length..], b"early");
}

#[tokio::test]
async fn heads_have_bounds() {
    let read_all =
        async |bytes: &[u8], limit| read(&mut &*bytes, &mut Vec::new(), limit).await.unwrap_err().to_string();
    let endless = format!("GET http://a.com/ HTTP/1.1\r\nX: {}", "y".repeat(5000));
    assert!(read_all(endless.as_bytes(), 4096).await.contains("too large"));
    assert!(read_all(format!("{endless}\r\n\r\n").as_bytes(), 4096).await.contains("too large"));
    assert!(read_all(b"GET http://a.com/ HT", 4096).await.contains("ended"));
    assert!(read_all(b"\x16\x03\x01", 4096).await.contains("not an HTTP request"));
    assert!(read_all(b"", 4096).await.contains("ended"));
}

/// A reader that gives one byte at a time.
fn tokio_test_pieces(bytes: &'static [u8]) -> impl AsyncRead + Unpin {
    let (mut near, far) = tokio::io::duplex(1);
    tokio::spawn(async move {
        tokio::io::AsyncWriteExt::write_all(&mut near, bytes).await.unwrap();
    });
    far
}
