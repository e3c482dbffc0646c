//! TLS connections that name another host than the allowed one.

use serde_json::Value;

use crate::net::{Server, denials, row, through};
use crate::support::as_each_caller;

fn layer(json: &Value) -> &Value {
    let layers = json["layers"].as_array().expect("a list");
    &layers.iter().find(|layer| layer["name"] == "proxy").expect("the layer")["status"]
}

#[test]
fn another_name_is_refused_unless_that_is_switched_off() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        // The connection goes to one host and is for another.
        let program =
            ["curl", "-sS", "--max-time", "20", "--connect-to", "b.test:443:a.test:443", "https://b.test/"];
        let run = |more: &[&str]| {
            let flags = [&["--json", "--allow-host", "a.test"], more].concat();
            through(fixture, &upstream, &flags, &program).finish()
        };
        let strict = run(&[]);
        assert_eq!(denials(&strict.json()), [row("a.test:443", "")], "{}", strict.report());
        assert_eq!(layer(&strict.json()), "enforced");
        let told = run(&["--sni", "log"]);
        assert_eq!(denials(&told.json()), [[""; 4]; 0], "{}", told.report());
        assert_eq!(layer(&told.json()), "partial");
        // Whoever needs the whole layer gets no run without it.
        run(&["--sni", "log", "--require", "proxy"]).code_is(125);
        assert_eq!(upstream.seen().iter().filter(|line| line.starts_with("CONNECT a.test:443 ")).count(), 2);
    });
}

#[test]
fn the_configuration_says_what_is_done() {
    as_each_caller(|fixture| {
        fixture.write(fixture.host().join("sni.toml"), "[sandbox.network]\nsni = \"log\"\n");
        let config = fixture.expand("{host}/sni.toml");
        let run = |more: &[&str]| {
            let flags = [&["--json", "--config", &config, "--allow-host", "a.test"], more].concat();
            fixture.inside(&flags, &["true"]).finish().code_is(0).json()
        };
        assert_eq!(layer(&run(&[])), "partial");
        assert_eq!(layer(&run(&["--sni", "strict"])), "enforced");
    });
}
