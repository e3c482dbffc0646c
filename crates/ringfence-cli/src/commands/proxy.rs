//! `ringfence proxy`

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use ringfence_proxy::{
    EgressPolicy, Event, EventSink, Limits, Listener, Phase, Proxy, Reach, Rule, Run, SystemResolver,
    Upstream,
};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{ProxyArgs, ProxyNet};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{one_line, print_note};
use crate::usage::UsageError;

/// Events that wait for a slow reader of standard output; further ones are counted and lost.
const QUEUE: usize = 16 * 1024;

pub(crate) fn proxy(args: &ProxyArgs) -> Result<Exit, CliError> {
    let policy = policy(args)?;
    let upstream = Upstream::from_variables(|name| std::env::var(name).ok())?;
    let listen_error = |source| CliError::Listen { address: args.listen, source };
    let socket = TcpListener::bind(args.listen).map_err(listen_error)?;
    let address = socket.local_addr().map_err(listen_error)?;
    let connections = usize::try_from(args.max_connections).unwrap_or(usize::MAX);
    let mut limits = Limits { connections, ..Limits::default() };
    if let Some(files) = limits.fit_open_files() {
        let most = limits.connections;
        print_note(&format!(
            "ringfence: at most {most} connections at one time: the limit of open files is {files}\n\
             hint: raise it (`ulimit -Hn {}`), or ask for fewer with --max-connections\n",
            2 * connections + 256
        ));
    }
    let (printer, sink) = Printer::start(args.json)?;
    sink.line(if args.json {
        json!({"event": "listening", "address": address}).to_string()
    } else {
        format!("listening on {address}")
    });
    let run = Run {
        name: "proxy".to_owned(),
        policy,
        limits,
        events: Arc::new(sink),
        ask: None,
        listeners: vec![Listener::Proxy { socket, credentials: None }],
    };
    let proxy = Proxy::new(Arc::new(SystemResolver::default()), upstream);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let result = runtime.block_on(serve(&proxy, run));
    // A look-up that is still under way holds nobody up.
    runtime.shutdown_background();
    drop(proxy);
    printer.finish();
    result
}

async fn serve(proxy: &Proxy, run: Run) -> Result<Exit, CliError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::Runtime)?;
    let mut handle = proxy.start(run)?;
    let failed = tokio::select! {
        _ = terminate.recv() => false,
        _ = interrupt.recv() => false,
        () = handle.failed() => true,
    };
    handle.stop().await;
    if failed { Err(CliError::Panic("the listener failed".to_owned())) } else { Ok(Exit::Success) }
}

fn policy(args: &ProxyArgs) -> Result<EgressPolicy, UsageError> {
    if !args.listen.ip().is_loopback() {
        return Err(UsageError::new(
            format!("`--listen {}` would let other machines use the proxy", args.listen),
            "listen on a loopback address, such as 127.0.0.1:0",
        ));
    }
    if args.allow_host.is_empty() && args.net.is_none() && args.allow_loopback.is_empty() {
        return Err(UsageError::new(
            "nothing is allowed",
            "name a host with --allow-host, or allow every public one with --net public",
        ));
    }
    Ok(EgressPolicy {
        reach: match args.net {
            Some(ProxyNet::Public) => Reach::Public,
            None => Reach::Listed,
        },
        allow: args.allow_host.clone(),
        deny: args.deny_host.clone(),
        internal: Vec::new(),
        allow_private: false,
        allow_loopback_ports: args.allow_loopback.iter().copied().collect(),
        sni: args.sni.into(),
    })
}

/// Writes lines to standard output on a thread of its own, so that a slow reader does not hold up connections.
struct Printer(JoinHandle<()>);

/// The printer's other end.
struct Lines {
    queue: SyncSender<String>,
    json: bool,
    lost: AtomicU64,
}

impl Printer {
    fn start(json: bool) -> Result<(Self, Lines), CliError> {
        let (queue, lines) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("printer".to_owned()).spawn(move || print(&lines));
        Ok((Self(thread.map_err(CliError::Runtime)?), Lines { queue, json, lost: AtomicU64::new(0) }))
    }

    /// Waits until all is written; nobody sends any more.
    fn finish(self) {
        let _ = self.0.join();
    }
}

/// A reader that went away is no reason to stop serving.
fn print(lines: &Receiver<String>) {
    let mut out = io::stdout().lock();
    for line in lines {
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

impl Lines {
    fn line(&self, line: String) {
        if self.queue.try_send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl EventSink for Lines {
    fn event(&self, event: &Event) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.line(match self.json {
                true => json!({"event": "lost", "count": lost}).to_string(),
                false => format!("lost     {lost} events: standard output was not read in time"),
            });
        }
        self.line(match self.json {
            true => serde_json::to_string(event).unwrap_or_default(),
            false => one_line(&sentence(event)),
        });
    }
}

/// An event for people.
fn sentence(event: &Event) -> String {
    let protocol = match serde_json::to_value(event.protocol) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    };
    let wanted = &event.wanted;
    let mut text = match (event.event, event.allowed) {
        (Phase::Decision, true) => match &event.rule {
            Rule::Allowed { pattern } => format!("allowed  {protocol} {wanted} by {pattern}"),
            Rule::ServerName { .. } => format!("noticed  {protocol} {}", event.rule.explain(wanted)),
            _ => format!("allowed  {protocol} {wanted}"),
        },
        (Phase::Decision, false) => format!("refused  {protocol} {}", event.rule.explain(wanted)),
        (Phase::End, _) => format!("ended    {protocol} {wanted}"),
    };
    match event.event {
        Phase::Decision => {
            if let Some(option) = event.rule.allow_with(wanted).filter(|_| !event.allowed) {
                let _ = write!(text, "; {option} would allow it");
            }
        }
        Phase::End => {
            let ending = serde_json::to_value(event.ending).unwrap_or_default();
            let seconds = event.duration.as_secs_f64();
            let _ = write!(
                text,
                ": {}, {} bytes sent, {} received, {seconds:.3} s",
                ending.as_str().unwrap_or_default(),
                event.sent,
                event.received
            );
        }
    }
    text
}
