use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::event::Event;
use crate::limits::Limits;
use crate::policy::{EgressPolicy, Reach};
use crate::resolve::SystemResolver;
use crate::upstream::Upstream;

/// What was told: rule and host.
type Told = Arc<Mutex<Vec<String>>>;

fn service(allow: &[&str], deny: &[&str], reach: Reach) -> (DnsService, Told) {
    let patterns = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    let told = Told::default();
    let sink = Arc::clone(&told);
    let admission = Admission {
        run: "test".into(),
        policy: EgressPolicy {
            reach,
            allow: patterns(allow),
            deny: patterns(deny),
            ..EgressPolicy::default()
        },
        limits: Limits::default(),
        events: Arc::new(move |event: &Event| {
            sink.lock().unwrap().push(format!("{} {}", event.rule.name(), event.wanted));
        }),
        questions: None,
        resolver: Arc::new(SystemResolver::default()),
        upstream: Arc::new(Upstream::default()),
        connections: AtomicU64::new(0),
    };
    (DnsService { admission: Arc::new(admission), names: Arc::default() }, told)
}

fn example() -> DnsService {
    service(&["a.example:*", "*.w.example:443"], &["x.w.example"], Reach::Listed).0
}

/// A query as bytes: labels as they are, so that also what is no name can be asked for.
fn query(labels: &[&[u8]], kind: RecordType) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(*label);
    }
    bytes.push(0);
    bytes.extend(u16::from(kind).to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

fn labels(name: &str) -> Vec<&[u8]> {
    name.split('.').map(str::as_bytes).collect()
}

fn ask(service: &DnsService, name: &str, kind: RecordType) -> Message {
    answer(service, &query(&labels(name), kind))
}

fn answer(service: &DnsService, bytes: &[u8]) -> Message {
    Message::from_vec(&service.answer(bytes).unwrap()).unwrap()
}

fn code(message: &Message) -> ResponseCode {
    message.metadata.response_code
}

#[test]
fn an_allowed_name_gets_addresses_that_lead_back_to_it() {
    let service = example();
    for name in ["a.example", "y.w.example", "z.y.w.example"] {
        let v4 = ask(&service, name, RecordType::A);
        let RData::A(A(v4_address)) = v4.answers[0].data else { panic!("{v4:?}") };
        let v6 = ask(&service, name, RecordType::AAAA);
        let RData::AAAA(AAAA(v6_address)) = v6.answers[0].data else { panic!("{v6:?}") };
        for address in [IpAddr::V4(v4_address), v6_address.into()] {
            assert_eq!(service.names.host(address), Some(Host::Name(name.to_owned())));
        }
        assert_eq!(
            (code(&v4), v4.metadata.id, v4.metadata.message_type),
            (ResponseCode::NoError, 0x1234, MessageType::Response)
        );
        assert!(v4.metadata.recursion_available);
    }
}

#[test]
fn a_name_that_is_not_allowed_does_not_exist_and_is_told() {
    let (service, told) = service(&["a.example:*", "*.w.example"], &["x.w.example"], Reach::Listed);
    for (name, rule) in [
        ("b.example", "not-listed"),
        ("w.example", "not-listed"),
        ("x.w.example", "denied"),
        ("example", "not-listed"),
    ] {
        let message = ask(&service, name, RecordType::A);
        assert_eq!((code(&message), message.answers.len()), (ResponseCode::NXDomain, 0), "{name}");
        assert_eq!(told.lock().unwrap().pop(), Some(format!("{rule} {name}")));
    }
    assert_eq!(code(&ask(&service, "a.example", RecordType::A)), ResponseCode::NoError);
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn public_reach_knows_every_name_that_is_not_denied() {
    let (service, _) = service(&[], &["x.example"], Reach::Public);
    assert_eq!(code(&ask(&service, "any.thing", RecordType::A)), ResponseCode::NoError);
    assert_eq!(code(&ask(&service, "x.example", RecordType::A)), ResponseCode::NXDomain);
}

#[test]
fn localhost_is_the_box_itself() {
    let message = ask(&example(), "localhost", RecordType::A);
    assert_eq!(message.answers[0].data, RData::A(A(Ipv4Addr::LOCALHOST)));
    let message = ask(&example(), "db.localhost", RecordType::AAAA);
    assert_eq!(message.answers[0].data, RData::AAAA(AAAA(Ipv6Addr::LOCALHOST)));
}

#[test]
fn other_types_of_an_allowed_name_are_empty() {
    let service = example();
    for kind in [
        RecordType::ANY,
        RecordType::TXT,
        RecordType::CNAME,
        RecordType::MX,
        RecordType::HTTPS,
        RecordType::SVCB,
        RecordType::NULL,
    ] {
        let message = ask(&service, "a.example", kind);
        assert_eq!((code(&message), message.answers.len()), (ResponseCode::NoError, 0), "{kind}");
        assert_eq!(code(&ask(&service, "b.example", kind)), ResponseCode::NXDomain, "{kind}");
    }
}

#[test]
fn mixed_case_is_one_name_and_comes_back_as_it_was() {
    let service = example();
    let plain = ask(&service, "a.example", RecordType::A);
    let bytes = query(&labels("A.eXaMpLe"), RecordType::A);
    let raw = service.answer(&bytes).unwrap();
    // The question and the name in the answer, byte for byte (draft-vixie-dnsext-dns0x20).
    assert_eq!(raw[12..bytes.len()], bytes[12..]);
    let mixed = Message::from_vec(&raw).unwrap();
    assert_eq!(mixed.answers[0].data, plain.answers[0].data);
    assert_eq!(mixed.answers[0].name.to_ascii(), "A.eXaMpLe.");
}

#[test]
fn addresses_lead_back_by_ptr() {
    let service = example();
    let RData::A(A(address)) = ask(&service, "a.example", RecordType::A).answers[0].data else { panic!() };
    let [a, b, c, d] = address.octets();
    let message = ask(&service, &format!("{d}.{c}.{b}.{a}.in-addr.arpa"), RecordType::PTR);
    assert_eq!(message.answers[0].data, RData::PTR(PTR(Name::from_ascii("a.example.").unwrap())));
    assert_eq!(code(&ask(&service, "1.0.0.10.in-addr.arpa", RecordType::PTR)), ResponseCode::NXDomain);
}

#[test]
fn labels_that_look_like_other_names_are_no_names() {
    let service = example();
    for labels in [
        &[b"a.example".as_slice()][..],
        &[b"y.w", b"example"],
        &[b"a\0", b"example"],
        &[b"\xff", b"w", b"example"],
        &[b"y z", b"w", b"example"],
        &[b"127", b"0", b"0", b"1"],
        &[],
    ] {
        let message = answer(&service, &query(labels, RecordType::A));
        assert_eq!((code(&message), message.answers.len()), (ResponseCode::NXDomain, 0), "{labels:?}");
    }
}

#[test]
fn long_names_are_answered_and_longer_ones_refused() {
    let service = example();
    let part = [b'y'; 61];
    // 3 labels of 61, one of 57, `w.example`: 255 bytes in the message.
    let most = [&part[..], &part, &part, &part[..57], b"w", b"example"];
    let bytes = query(&most, RecordType::A);
    assert_eq!(bytes.len() - 12 - 4, 255);
    let message = answer(&service, &bytes);
    assert_eq!((code(&message), message.answers.len()), (ResponseCode::NoError, 1));
    let more = [&part[..], &part, &part, &part[..58], b"w", b"example"];
    assert_eq!(code(&answer(&service, &query(&more, RecordType::A))), ResponseCode::FormErr);
}

#[test]
fn compression_that_leads_nowhere_is_malformed() {
    let service = example();
    for name in [
        &[0xc0, 12][..],
        &[0xc0, 14, 0xc0, 12],
        &[1, b'a', 0xc0, 12],
        &[0xc0, 0xff],
        &[0xc0],
        &[63, b'a'],
        &[0x80, 0],
    ] {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(name);
        bytes.extend([0, 1, 0, 1]);
        let message = answer(&service, &bytes);
        assert_eq!((code(&message), message.metadata.id), (ResponseCode::FormErr, 0x1234), "{name:?}");
    }
}

#[test]
fn odd_messages_are_refused_or_left_alone() {
    let service = example();
    let good = query(&labels("a.example"), RecordType::A);
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    // Responses, and what is too short to be a query.
    for bytes in [&changed(2, 0x81)[..], &good[..11], &[]] {
        assert_eq!(service.answer(bytes), None);
    }
    // No question, another class, an update, a question that is missing.
    let mut none = good.clone();
    none.truncate(12);
    none[5] = 0;
    assert_eq!(code(&answer(&service, &none)), ResponseCode::FormErr);
    assert_eq!(code(&answer(&service, &changed(good.len() - 1, 3))), ResponseCode::Refused);
    assert_eq!(code(&answer(&service, &changed(2, 0x10))), ResponseCode::NotImp);
    assert_eq!(code(&answer(&service, &good[..20])), ResponseCode::FormErr);
    // Two questions.
    let mut two = changed(5, 2);
    two.extend(&good[12..]);
    assert_eq!(code(&answer(&service, &two)), ResponseCode::FormErr);
}

#[test]
fn an_answer_speaks_edns_if_the_query_does() {
    let service = example();
    assert!(ask(&service, "a.example", RecordType::A).edns.is_none());
    let mut bytes = query(&labels("a.example"), RecordType::A);
    bytes[11] = 1;
    bytes.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    let message = answer(&service, &bytes);
    assert_eq!(message.edns.map(|edns| edns.max_payload()), Some(PAYLOAD));
    assert_eq!(message.answers.len(), 1);
}

#[test]
fn names_get_different_addresses() {
    let service = example();
    let mut seen = HashSet::new();
    for number in 0..500 {
        let message = ask(&service, &format!("h{number}.w.example"), RecordType::A);
        assert!(seen.insert(message.answers[0].data.to_string()));
    }
}
