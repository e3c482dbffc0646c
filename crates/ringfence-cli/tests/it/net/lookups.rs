//! Hostile look-ups, asked from inside the box of the service that really answers there.

use ringfence_testkit::needs;

use crate::net::{Server, denials, row, through};
use crate::support::{as_each_caller, binaries};

/// Helpers of each script: queries as bytes, by UDP and TCP, and the answer taken apart.
const HELPERS: &str = r#"
import ipaddress, os, random, socket, struct, sys
SERVER = ("127.0.0.1", 53)
A, NS, SOA, PTR, MX, TXT, AAAA, SRV, HTTPS, ANY = 1, 2, 6, 12, 15, 16, 28, 33, 65, 255

def name(text):
    return b"".join(bytes([len(l)]) + l for l in text.encode().split(b".")) + b"\0"

def message(question, count=1, flags=0x0100, tail=b""):
    return struct.pack(">HHHHHH", 0x1234, flags, count, 0, 0, 0) + question + tail

def query(text, kind=A, qclass=1):
    return message(name(text) + struct.pack(">HH", kind, qclass))

def udp(data, patience=10):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(patience)
        s.connect(SERVER)
        s.send(data)
        try:
            return s.recv(65535)
        except socket.timeout:
            return None

def tcp(data, patience=10):
    with socket.create_connection(SERVER, patience) as s:
        s.sendall(data)
        try:
            head = s.recv(2, socket.MSG_WAITALL)
            return s.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL) if len(head) == 2 else None
        except ConnectionResetError:
            return None

def framed(data):
    return struct.pack(">H", len(data)) + data

def code(answer):
    assert answer[:2] == b"\x12\x34" and answer[2] & 0x80, answer
    return answer[3] & 15

def answers(answer):
    return struct.unpack(">H", answer[6:8])[0]

def alive():
    # A datagram may be lost behind many others; resolvers ask again.
    tries = (udp(query("a.test"), 2) for _ in range(10))
    answer = next(filter(None, tries))
    assert code(answer) == 0 and answer[-4:-2] == bytes([198, 18]), answer
"#;

fn ask(script: &str, flags: &[&str]) {
    needs!(binaries(); "python3");
    let script = format!("{HELPERS}\n{script}\nalive()\nprint('done')\n");
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let flags = [&["--json"], flags].concat();
        let program = ["env", "-i", "PATH=/usr/bin:/bin", "python3", "-c", &script];
        let finished = through(fixture, &upstream, &flags, &program).finish();
        assert_eq!(finished.json()["stdout"], "done\n", "{}", finished.report());
        assert_eq!(upstream.seen(), [""; 0], "no look-up leaves the box");
    });
}

#[test]
fn names_that_lead_in_circles_or_are_too_long() {
    let script = r#"
def name_is(raw):
    return message(raw + struct.pack(">HH", A, 1))
hostile = {
    "itself": b"\xc0\x0c",
    "each other": b"\xc0\x0e\xc0\x0c",
    "forward": b"\xc0\x7f",
    "a label and back": b"\1a\xc0\x0c",
    "into the header": b"\xc0\x00",
    "label of 64": bytes([64]) + b"x" * 64 + b"\0",
    "reserved bits": bytes([0x80]) + b"x\0",
    "256 bytes": (bytes([63]) + b"x" * 63) * 4 + b"\0",
    "no end": (bytes([63]) + b"x" * 63) * 20,
}
for why, raw in hostile.items():
    for answer in (udp(name_is(raw)), tcp(framed(name_is(raw)))):
        assert answer is None or code(answer) != 0 and answers(answer) == 0, (why, answer)
    alive()
longest = ".".join(["x" * 63] * 3 + ["x" * 61])
assert len(name(longest)) == 255
assert code(udp(query(longest))) == 3
"#;
    ask(script, &["--allow-host", "a.test"]);
}

#[test]
fn types_classes_and_counts_that_nobody_needs() {
    let script = r#"
for kind in (NS, SOA, MX, TXT, SRV, HTTPS, ANY, 0, 65535):
    known, unknown = udp(query("a.test", kind)), udp(query("b.test", kind))
    assert (code(known), answers(known)) == (0, 0), (kind, known)
    assert (code(unknown), answers(unknown)) == (3, 0), (kind, unknown)
for qclass in (3, 4, 255):
    assert code(udp(query("a.test", A, qclass))) == 5
question = name("a.test") + struct.pack(">HH", A, 1)
for count, body in ((2, question * 2), (300, question * 300), (65535, question), (0, b"")):
    answer = udp(message(question if not body else body, count))
    assert answer is None or code(answer) != 0 and answers(answer) == 0, (count, answer)
for opcode in (1, 2, 4, 5, 15):
    assert code(udp(message(question, flags=opcode << 11))) == 4
assert udp(message(question, flags=0x8180), 1) is None, "an answer is not answered"
mixed = udp(query("A.tEsT"))
assert code(mixed) == 0 and name("A.tEsT") in mixed, mixed
six = ipaddress.ip_address(udp(query("a.test", AAAA))[-16:])
assert six in ipaddress.ip_network("fd52:696e:6766:656e::/64"), six
"#;
    ask(script, &["--allow-host", "a.test"]);
}

#[test]
fn what_is_cut_off_too_large_or_noise() {
    let script = r#"
whole = query("a.test")
for length in range(len(whole)):
    answer = udp(whole[:length], 0.05) if length < 12 else udp(whole[:length])
    assert answer is None or code(answer) == 1, (length, answer)
rng = random.Random(1)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.connect(SERVER)
    for _ in range(3000):
        s.send(rng.randbytes(rng.randrange(1, 600)))
alive()
for size in (4096, 9000, 60000):
    answer = udp(message(name("a.test") + struct.pack(">HH", A, 1), tail=b"\0" * size), 0.2)
    assert answer is None or answers(answer) <= 1, answer
    alive()
assert code(tcp(framed(whole))) == 0
assert tcp(struct.pack(">H", 65535) + b"x" * 65535) is None
assert tcp(b"\0\0") is None
assert tcp(framed(b"\0")) is None
slow = [socket.create_connection(SERVER) for _ in range(50)]
for s in slow:
    s.send(b"\0")
alive()
with socket.create_connection(SERVER, 10) as s:
    s.sendall(framed(whole) * 200)
    for _ in range(200):
        length = struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0]
        assert code(s.recv(length, socket.MSG_WAITALL)) == 0
"#;
    ask(script, &["--allow-host", "a.test"]);
}

/// Each name of a run has an address of its own, and there are only so many.
#[test]
fn the_addresses_that_stand_for_names_run_out_and_nothing_else_does() {
    let script = r#"
alive()
codes = {}
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.settimeout(20)
    s.connect(SERVER)
    for number in range(20000):
        s.send(query(f"n{number}.test"))
        codes.setdefault(code(s.recv(512)), number)
assert codes == {0: 0, 2: 16383}, codes
assert code(udp(query("n7.test"))) == 0, "a name that has one keeps it"
"#;
    ask(script, &["--net", "public"]);
}

#[test]
fn a_name_that_is_not_allowed_does_not_exist_and_is_listed_once() {
    needs!(binaries(); "python3");
    let script = format!("{HELPERS}\nfor _ in range(50): assert code(udp(query('b.test'))) == 3\nalive()");
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let program = ["python3", "-c", &script];
        let json =
            through(fixture, &upstream, &["--json", "--allow-host", "a.test"], &program).finish().json();
        assert_eq!(denials(&json), [row("b.test", "--allow-host b.test")], "{json}");
    });
}
