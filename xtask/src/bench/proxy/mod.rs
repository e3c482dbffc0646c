//! The proxy beside ordinary ones: bulk transfer, processor time for it, time to connect, memory of idle tunnels.

mod contender;
mod traffic;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::report::Report;
use super::rounds::median;
use super::setup::Setup;
use crate::error::Error;
use contender::{Contender, Kind};
use traffic::{Server, open};

/// Bytes of one bulk transfer.
const BULK: u64 = 4 << 30;
/// Tunnels that lie idle at one time.
const IDLE: usize = 10_000;

/// Throughput in bytes for each second, and for each second of the proxy's processor time.
#[derive(Default)]
struct Bulk {
    per_second: Vec<f64>,
    per_cpu_second: Vec<f64>,
}

/// Rows of the proxy.
pub(crate) fn all(setup: &Setup, report: &mut Report) -> Result<(), Error> {
    let server = Server::start().map_err(network)?;
    let mut contenders = vec![None];
    for kind in [Kind::Ringfence, Kind::Tinyproxy, Kind::Microsocks, Kind::Node] {
        contenders.push(Some(Contender::start(kind, setup, [server.port(), server.holding()])?));
    }
    bulk(setup, report, &server, &contenders)?;
    latency(setup, report, &server, &contenders)?;
    for contender in contenders.iter().flatten() {
        idle(setup, report, &server, contender)?;
    }
    Ok(())
}

fn bulk(
    setup: &Setup,
    report: &mut Report,
    server: &Server,
    contenders: &[Option<Contender>],
) -> Result<(), Error> {
    let bytes = if setup.quick { BULK / 8 } else { BULK };
    let mut figures: Vec<Bulk> = contenders.iter().map(|_| Bulk::default()).collect();
    for round in 0..setup.rounds(50).min(7) {
        for turn in 0..contenders.len() {
            let at = (round + turn) % contenders.len();
            let proxy = contenders[at].as_ref();
            let before = proxy.map(Contender::cpu_time).transpose()?;
            let start = Instant::now();
            server.download(proxy, bytes).map_err(network)?;
            figures[at].per_second.push(bytes as f64 / start.elapsed().as_secs_f64());
            if let (Some(proxy), Some(before)) = (proxy, before) {
                let used = proxy.cpu_time()?.saturating_sub(before).max(Duration::from_millis(1));
                figures[at].per_cpu_second.push(bytes as f64 / used.as_secs_f64());
            }
        }
    }
    let direct = middle(&figures[0].per_second);
    let node = figures.last().map_or(0.0, |figures| middle(&figures.per_cpu_second));
    for (contender, figures) in contenders.iter().zip(&figures) {
        let name = contender.as_ref().map_or("direct", Contender::name);
        let own = matches!(contender, Some(contender) if contender.kind() == Kind::Ringfence);
        let rate = middle(&figures.per_second);
        let bar = |bar| own.then_some(bar);
        report.add(
            &format!("bulk, one stream: {name}"),
            gibibytes(rate),
            "direct, at least",
            Some(rate / direct),
            bar(0.9),
        );
        if contender.is_some() {
            let rate = middle(&figures.per_cpu_second);
            report.add(
                &format!("bulk, by processor time: {name}"),
                gibibytes(rate),
                "a JavaScript proxy, at least",
                Some(rate / node),
                bar(3.0),
            );
        }
    }
    Ok(())
}

/// From connecting to the first byte that comes back.
fn latency(
    setup: &Setup,
    report: &mut Report,
    server: &Server,
    contenders: &[Option<Contender>],
) -> Result<(), Error> {
    let mut samples: Vec<Vec<Duration>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..setup.rounds(2000) {
        for turn in 0..contenders.len() {
            let at = (round + turn) % contenders.len();
            let start = Instant::now();
            server.ping(contenders[at].as_ref()).map_err(network)?;
            samples[at].push(start.elapsed());
        }
    }
    let medians: Vec<Duration> = samples.into_iter().map(median).collect();
    for (contender, time) in contenders.iter().zip(&medians) {
        let name = contender.as_ref().map_or("direct", Contender::name);
        let above = time.saturating_sub(medians[0]);
        let own = matches!(contender, Some(contender) if contender.kind() == Kind::Ringfence);
        report.add(
            &format!("connect and one byte: {name}"),
            format!("{:.3} ms", time.as_secs_f64() * 1e3),
            "milliseconds above direct",
            Some(above.as_secs_f64() * 1e3),
            own.then_some(0.3),
        );
    }
    Ok(())
}

/// Memory of the process for each tunnel in which nothing passes.
fn idle(setup: &Setup, report: &mut Report, server: &Server, contender: &Contender) -> Result<(), Error> {
    // Both ends of a tunnel lie in this process, and both in the proxy, which keeps 256 files for other things.
    let files = usize::try_from(contender::file_limit()?).unwrap_or(usize::MAX);
    let count = contender.most_tunnels().min(setup.rounds(IDLE)).min(files.saturating_sub(300) / 2);
    let before = contender.memory_kib()?;
    let tunnels: Vec<TcpStream> = (0..count)
        .map(|_| open(Some(contender), server.holding()))
        .collect::<Result<_, _>>()
        .map_err(network)?;
    let each = contender.memory_kib()?.saturating_sub(before) as f64 / count as f64;
    drop(tunnels);
    report.add(
        &format!("{count} idle tunnels, each: {}", contender.name()),
        format!("{each:.1} KiB"),
        "KiB",
        Some(each),
        (contender.kind() == Kind::Ringfence).then_some(10.0),
    );
    Ok(())
}

fn network(source: std::io::Error) -> Error {
    Error::Network(source)
}

fn gibibytes(rate: f64) -> String {
    format!("{:.2} GiB/s", rate / f64::from(1 << 30))
}

fn middle(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
