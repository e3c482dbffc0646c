//! What a machine has printed, and what it should have.

use serde_json::Value;

/// Lines of a name and what it is.
#[derive(Debug)]
pub(super) struct Report {
    lines: Vec<(String, String)>,
}

impl Report {
    /// Takes the lines that begin with `@@`, of what else the console shows.
    pub(super) fn parse(console: &str) -> Self {
        let line = |line: &str| {
            let (_, line) = line.split_once("@@")?;
            let (name, value) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            Some((name.to_owned(), value.to_owned()))
        };
        Self { lines: console.lines().filter_map(line).collect() }
    }

    /// The kernel's release.
    pub(super) fn kernel(&self) -> &str {
        self.first("kernel").unwrap_or("?")
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    fn all(&self, name: &str) -> Vec<&str> {
        self.lines.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    fn json(&self, name: &str) -> Value {
        self.first(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Whether the kernel has all calls that the native backend makes.
    fn is_new_enough(&self) -> bool {
        let mut numbers =
            self.kernel().split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 12)
    }
}

/// What is not as it should be on a host of that name.
pub(super) fn judge(report: &Report, host: &str) -> Vec<String> {
    if report.first("end").is_none() {
        return vec!["the machine did not get to the end".to_owned()];
    }
    if !report.is_new_enough() {
        refused(report, "Linux 5.12")
    } else if host == "without user namespaces" {
        refused(report, "max_user_namespaces")
    } else {
        [layers(report, host), acts(report)].concat()
    }
}

/// Nothing may have run, and the hint must name what is missing.
fn refused(report: &Report, cause: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for name in ["root", "user", "network"] {
        let error = &report.json(name)["error"];
        let hint = error["hint"].as_str().unwrap_or_default();
        if error["kind"] != "launch" || !hint.contains(cause) {
            problems.push(format!("{name}: not refused for {cause}: {}", report.json(name)));
        }
    }
    let ran =
        report.first("made").is_none_or(|made| !made.trim().is_empty()) || report.first("inside").is_some();
    problems.extend(ran.then(|| "something ran".to_owned()));
    problems
}

/// Everything ran, and each layer is said to be in force as far as the kernel has it.
fn layers(report: &Report, host: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let supported = report.json("landlock");
    let abi = (supported["result"] == "allowed").then(|| supported["detail"].to_string());
    if abi.is_some() == (host == "without landlock") {
        problems.push(format!("this is no host {host}: {supported}"));
    }
    for name in ["root", "user", "network"] {
        let run = report.json(name);
        if run["exit_code"] != 0 || !run["error"].is_null() {
            problems.push(format!("{name}: did not run: {run}"));
            continue;
        }
        for layer in run["layers"].as_array().into_iter().flatten() {
            let status = layer["status"].as_str().unwrap_or_default();
            let detail = layer["detail"].as_str().unwrap_or_default();
            let said = match layer["name"].as_str().unwrap_or_default() {
                "landlock" => match &abi {
                    Some(abi) => status == "enforced" && detail.contains(&format!("ABI {abi},")),
                    None => status == "missing",
                },
                "netns" if name == "network" => status == "not-requested",
                "socket-gate" if name == "network" => status == "not-requested",
                "socket-gate" => {
                    let rules_sockets =
                        abi.as_ref().and_then(|abi| abi.parse().ok()).is_some_and(|abi: u32| abi >= 9);
                    status == if rules_sockets { "enforced" } else { "partial" }
                }
                "cgroup" | "proxy" => status == "not-requested",
                _ => status == "enforced",
            };
            if !said {
                problems.push(format!("{name}: {layer} where Landlock's ABI is {abi:?}"));
            }
        }
    }
    if report.first("made").is_none_or(|made| made.trim() != "by-root by-user") {
        problems.push(format!("made: {:?}", report.first("made")));
    }
    problems
}

/// Each act works outside and not inside.
fn acts(report: &Report) -> Vec<String> {
    let allowed = |line: &str| line.contains(r#""result":"allowed""#);
    let named = |line: &str| line.split(" => ").next().unwrap_or_default().to_owned();
    let outside = report.all("outside");
    let inside = report.all("inside");
    let mut problems = Vec::new();
    if outside.is_empty() || outside.iter().map(|line| named(line)).ne(inside.iter().map(|line| named(line)))
    {
        problems.push(format!("{} acts outside, {} inside", outside.len(), inside.len()));
    }
    problems
        .extend(outside.iter().filter(|line| !allowed(line)).map(|line| format!("proves nothing: {line}")));
    problems.extend(inside.iter().filter(|line| allowed(line)).map(|line| format!("not closed: {line}")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(hint: &str) -> String {
        let run = format!(r#"{{"error":{{"kind":"launch","hint":"{hint}"}}}}"#);
        format!("@@root {run}\n@@user {run}\n@@network {run}\n@@made \n@@end\n")
    }

    fn ran(abi: u32, said: u32, inside: &str) -> String {
        let run = format!(
            r#"{{"exit_code":0,"error":null,"layers":[{{"name":"landlock","status":"enforced","detail":"ABI {said}, 6 rules"}}]}}"#
        );
        format!(
            "noise @@landlock {{\"result\":\"allowed\",\"detail\":{abi}}}\r\n@@root {run}\n@@user {run}\n@@network {run}\n\
             @@made by-root by-user \n@@outside x => {{\"result\":\"allowed\"}}\n@@inside x => {{\"result\":\"{inside}\"}}\n\
             @@end\n"
        )
    }

    fn problems(kernel: &str, host: &str, text: &str) -> usize {
        judge(&Report::parse(&format!("@@kernel {kernel}\n{text}")), host).len()
    }

    #[test]
    fn an_old_kernel_must_refuse() {
        assert_eq!(problems("5.10.0-32", "plain", &refusal("Linux 5.12 or newer")), 0);
        assert_eq!(problems("5.10.0-32", "plain", &refusal("ask somebody")), 3);
        assert!(problems("5.10.0-32", "plain", &ran(2, 2, "denied")) > 0);
        let cause = refusal("user.max_user_namespaces is 0");
        assert_eq!(problems("6.1.0", "without user namespaces", &cause), 0);
        assert!(problems("6.1.0", "plain", &cause) > 0);
        assert_eq!(problems("6.1.0", "plain", "@@kernel"), 1, "no end");
    }

    #[test]
    fn a_report_must_be_what_the_kernel_has() {
        assert_eq!(problems("6.1.0", "plain", &ran(2, 2, "denied")), 0);
        assert_eq!(problems("6.1.0", "plain", &ran(2, 3, "denied")), 3);
        assert_eq!(problems("6.1.0", "plain", &ran(2, 2, "allowed")), 1);
        assert!(problems("6.1.0", "without landlock", &ran(2, 2, "denied")) > 0);
    }
}
