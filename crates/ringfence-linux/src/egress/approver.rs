//! Hosts that the policy does not name are for the gate to decide, while the connection is held.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use ringfence_gate::{HostAnswer, HostApproval};
use ringfence_proxy::{Answer, Ask, NoApproval, Question};
use ringfence_types::HostPattern;

use super::clients::Clients;

/// Asks the gate.
pub(super) struct Approver {
    pub(super) approval: HostApproval,
    /// None if the box's programs can't be told apart.
    pub(super) clients: Option<Arc<Clients>>,
}

#[async_trait]
impl Ask for Approver {
    async fn ask(&self, question: Question) -> Answer {
        let Some(port) = question.wanted.port else { return Answer::No(NoApproval::Unavailable) };
        let clients = self.clients.clone();
        let program = async move {
            let look = move || clients?.program(question.client);
            tokio::task::spawn_blocking(look).await.ok().flatten()
        };
        let host = HostPattern::exact(&question.wanted.host, port);
        match self.approval.decide(host, program).await {
            HostAnswer::Once { by } => Answer::Once { by },
            HostAnswer::Session { by } => Answer::Session { by },
            HostAnswer::Denied => Answer::No(NoApproval::Refused),
            HostAnswer::Remembered => Answer::No(NoApproval::Remembered),
            HostAnswer::BreakerOpen(_) => Answer::No(NoApproval::Paused),
            HostAnswer::Timeout => Answer::No(NoApproval::Timeout),
            HostAnswer::Unavailable => Answer::No(NoApproval::Unavailable),
        }
    }

    fn has_client(&self, client: SocketAddr) -> bool {
        self.clients.as_ref().is_none_or(|clients| clients.has(client))
    }
}
