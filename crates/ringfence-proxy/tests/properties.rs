//! What holds for every input of the parsers that see foreign bytes.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use ringfence_proxy::{EgressPolicy, classify, embedded_v4, fuzzing};
use ringfence_types::Host;

/// Pieces of heads, whole and broken, that meet in every order.
fn head_text() -> impl Strategy<Value = String> {
    let start = prop::sample::select(vec![
        "GET http://a.com/ HTTP/1.1\r\n",
        "GET http://a.com:0/ HTTP/1.1\r\n",
        "POST http://a.com:80/x?y#z HTTP/1.0\r\n",
        "CONNECT a.com:443 HTTP/1.1\r\n",
        "CONNECT u@a.com:443 HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n",
    ]);
    let line = prop::sample::select(vec![
        "Host: a.com\r\n",
        "Host: b.com\r\n",
        "host:a.com:443\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "X: y\n",
        " folded\r\n",
        "X : y\r\n",
        "\r\n",
        "\r",
        "\0",
    ]);
    (start, prop::collection::vec(line, 0..8))
        .prop_map(|(start, lines)| format!("{start}{}\r\n", lines.concat()))
}

fn count(text: &str, name: &str) -> usize {
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    head.lines()
        .filter(|line| line.split(':').next().is_some_and(|own| own.trim().eq_ignore_ascii_case(name)))
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn an_accepted_head_has_one_reading(text in head_text()) {
        if let Some((connect, host, port, length)) = fuzzing::head(text.as_bytes()) {
            prop_assert_eq!(&text[length - 4..length], "\r\n\r\n");
            prop_assert!(!text[..length - 4].contains("\r\n\r\n"));
            let head = &text[..length];
            prop_assert!(count(head, "host") <= 1 && (connect || count(head, "host") == 1 || head.contains("HTTP/1.0")));
            prop_assert!(count(head, "content-length") + count(head, "transfer-encoding") <= 1);
            prop_assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']));
            prop_assert!(port != 0 && host == "a.com" && !head.contains("b.com") && !head.contains('@'));
        }
    }

    #[test]
    fn heads_of_any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::head(&bytes);
    }

    #[test]
    fn an_accepted_host_is_one_host(name in "[a-zA-Z0-9._%@:\\[\\]*/ -]{0,20}", port in 0u16..) {
        let text = format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n");
        if let Some((_, host, own, _)) = fuzzing::head(text.as_bytes()) {
            prop_assert_eq!(own, port);
            let parsed: Host = host.parse().unwrap();
            prop_assert_eq!(parsed.to_string(), host.clone());
            prop_assert!(host.starts_with('[') || !host.contains([':', '@', '/', '%', ' ', '*']), "{}", host);
        }
    }

    #[test]
    fn socks_requests_of_any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..300), shape in any::<bool>()) {
        if shape {
            bytes.splice(0..0, [5, 1, 0, 5, 1, 0, 3]);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        if let Some((host, port)) = runtime.block_on(fuzzing::socks(&bytes)) {
            prop_assert!(port != 0 && host.parse::<Host>().is_ok());
        }
    }

    #[test]
    fn first_bytes_are_judged_once_and_for_all(mut bytes in prop::collection::vec(any::<u8>(), 0..200), shape in any::<bool>()) {
        if shape {
            bytes.splice(0..0, [22, 3, 1, 0, 60, 1, 0, 0, 56, 3, 3]);
        }
        let mut verdict = None;
        for end in 0..=bytes.len() {
            let now = fuzzing::client_hello(&bytes[..end]);
            prop_assert!(verdict.is_none() || verdict == now, "{:?} became {:?}", verdict, now);
            verdict = now;
        }
    }

    #[test]
    fn every_query_has_a_small_answer_of_its_own(mut bytes in prop::collection::vec(any::<u8>(), 0..300), shape in 0..3) {
        let policy = EgressPolicy { allow: vec!["**.example:*".parse().unwrap()], ..EgressPolicy::default() };
        if shape > 0 && bytes.len() > 12 {
            bytes[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        if shape > 1 {
            bytes.splice(12.min(bytes.len())..12.min(bytes.len()), *b"\x07example\x00\x00\x01\x00\x01");
        }
        if let Some(answer) = fuzzing::Dns::new(policy).answer(&bytes) {
            prop_assert_eq!(&answer[..2], &bytes[..2]);
            prop_assert!(answer[2] & 0x80 != 0 && answer.len() <= 512);
        }
    }

    #[test]
    fn no_embedding_of_any_address_is_public(bits in any::<u32>(), suffix in any::<u64>()) {
        let v4 = Ipv4Addr::from_bits(bits);
        let low = u128::from(bits);
        for v6 in [
            0xffff << 32 | low,
            low,
            0x0064_ff9b << 96 | low,
            0x0064_ff9b_0001 << 80 | low,
            0x2002 << 112 | low << 80 | u128::from(suffix),
            0x2001_0000 << 96 | u128::from(suffix) << 32 | u128::from(!bits),
            0x2a00 << 112 | 0x5efe << 32 | low,
        ] {
            let address = IpAddr::V6(Ipv6Addr::from_bits(v6));
            prop_assert!(classify(address).is_some(), "{}", address);
            let local_nat64 = v6 >> 80 == 0x0064_ff9b_0001;
            // Zero and one are the unspecified address and the loopback, not embeddings.
            prop_assert!(local_nat64 || v6 <= 1 || embedded_v4(address) == Some(v4), "{}", address);
        }
    }
}
