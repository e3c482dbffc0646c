//! Answers of the proxy itself.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::head::HeadError;
use crate::admit::Refusal;

/// How long and how much of a request that is still coming is read after its refusal, so that closing the connection
/// does not destroy the answer on its way (RFC 9112, section 9.6).
const DRAIN_TIME: Duration = Duration::from_secs(1);
const DRAIN_BYTES: usize = 256 * 1024;

/// A status with a reason for people and for programs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    status: u16,
    phrase: &'static str,
    message: String,
    /// Name of the rule that refused.
    rule: Option<&'static str>,
    /// The option that would allow it.
    allow_with: Option<String>,
}

impl Reply {
    fn new(status: u16, phrase: &'static str, message: String) -> Self {
        Self { status, phrase, message, rule: None, allow_with: None }
    }

    /// The client has not said who it is.
    pub(crate) fn unauthorized() -> Self {
        Self::new(407, "Proxy Authentication Required", "this proxy needs a user and password".to_owned())
    }

    /// The request did not come in time.
    pub(crate) fn timeout() -> Self {
        Self::new(408, "Request Timeout", "the request took too long".to_owned())
    }

    pub(crate) fn bad_gateway(wanted: &dyn std::fmt::Display) -> Self {
        Self::new(502, "Bad Gateway", format!("{wanted} does not answer as an HTTP server should"))
    }

    /// For a refused head; none if nobody is there to read it.
    pub(crate) fn for_head(error: &HeadError) -> Option<Self> {
        match error {
            HeadError::Closed | HeadError::Io(_) => None,
            HeadError::TooLarge => Some(Self::new(431, "Request Header Fields Too Large", error.to_string())),
            _ => Some(Self::new(400, "Bad Request", error.to_string())),
        }
    }

    pub(crate) fn for_refusal(refusal: &Refusal) -> Self {
        let message = with_cause(refusal);
        match refusal {
            Refusal::Denied { wanted, rule } => Self {
                rule: Some(rule.name()),
                allow_with: rule.allow_with(wanted),
                ..Self::new(403, "Forbidden", message)
            },
            Refusal::ResolveTimeout { .. } | Refusal::DialTimeout { .. } => {
                Self::new(504, "Gateway Timeout", message)
            }
            _ => Self::new(502, "Bad Gateway", message),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut body = format!("ringfence: {}\n", self.message);
        let mut fields = String::new();
        if self.status == 407 {
            fields.push_str("Proxy-Authenticate: Basic realm=\"ringfence\"\r\n");
        }
        if let Some(rule) = self.rule {
            fields.push_str(&format!("X-Ringfence-Denied: {rule}\r\n"));
        }
        if let Some(option) = &self.allow_with {
            fields.push_str(&format!("X-Ringfence-Allow-With: {option}\r\n"));
            body.push_str(&format!("hint: {option} would allow it\n"));
        }
        format!(
            "HTTP/1.1 {} {}\r\n{fields}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.status,
            self.phrase,
            body.len(),
        )
        .into_bytes()
    }

    /// Sends the answer and closes the connection.
    pub(crate) async fn send(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.write_all(&self.to_bytes()).await?;
        close_gently(stream).await;
        Ok(())
    }
}

/// An error and what caused it, in one line without anything that could end a header field.
fn with_cause(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Ends the answer, then reads for a moment what the client still sends.
pub(crate) async fn close_gently(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let mut left = DRAIN_BYTES;
        let mut buffer = vec![0; 8 * 1024];
        while left > 0 {
            match stream.read(&mut buffer).await {
                Ok(count) if count > 0 => left = left.saturating_sub(count),
                _ => return,
            }
        }
    };
    // Whoever sends on for longer does not read the answer either.
    let _ = timeout(DRAIN_TIME, drain).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Rule, Wanted};

    #[test]
    fn a_refusal_names_host_port_and_option() {
        let wanted = Wanted { host: "a.com".parse().unwrap(), port: Some(8443) };
        let reply = Reply::for_refusal(&Refusal::Denied { wanted, rule: Rule::NotListed });
        let text = String::from_utf8(reply.to_bytes()).unwrap();
        assert!(text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{text}");
        assert!(text.contains("\r\nX-Ringfence-Denied: not-listed\r\n"), "{text}");
        assert!(text.contains("\r\nX-Ringfence-Allow-With: --allow-host a.com:8443\r\n"), "{text}");
        let body = "ringfence: a.com:8443 is not on the list of allowed hosts\nhint: --allow-host a.com:8443 would allow it\n";
        assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{text}");
        assert!(text.contains(&format!("Content-Length: {}\r\n", body.len())), "{text}");
    }
}
