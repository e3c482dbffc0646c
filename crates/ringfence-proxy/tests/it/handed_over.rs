//! A listener that was created in another network namespace and handed over by descriptor: the traffic stays where it
//! is, the listener crosses.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use ringfence_proxy::{Credentials, Listener};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::redirected::has;
use crate::support::{Setup, connect, echo_server, exactly, head};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_without_a_network_reaches_what_its_listener_allows() {
    if !has(&["unshare", "ip"]) {
        return;
    }
    let port = echo_server().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let control = UnixListener::bind(&path).unwrap();
    let set_up = "ip link set lo up && exec \"$@\"";
    let inside = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", set_up, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "handed_over::inside", "--ignored", "--nocapture"])
        .env("CONTROL", &path)
        .env("PORT", port.to_string())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let received = tokio::task::spawn_blocking(move || receive(&control.accept().unwrap().0)).await.unwrap();
    let socket = TcpListener::from(received);
    let more = vec![Listener::Proxy { socket, credentials: Some(Credentials::new("u", "p")) }];
    let proxy = Setup { more, ..Setup::new(&["a.test:*"]).loopback(port) }.start();
    let output = tokio::task::spawn_blocking(|| inside.wait_with_output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(proxy.decisions(), ["allowed", "-not-listed"]);
}

#[tokio::test]
#[ignore = "a process of its own, started by another test"]
async fn inside() {
    let port: u16 = std::env::var("PORT").unwrap().parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let control = UnixStream::connect(std::env::var_os("CONTROL").unwrap()).unwrap();
    send(&control, listener.into());
    // The control: the server is nowhere in this namespace.
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    let credentials = "Proxy-Authorization: Basic dTpw\r\n\r\n";
    for (host, status) in [("a.test", "HTTP/1.1 200 "), ("b.test", "HTTP/1.1 403 ")] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = connect(&format!("{host}:{port}")).replace("\r\n\r\n", &format!("\r\n{credentials}"));
        client.write_all(request.as_bytes()).await.unwrap();
        let answer = head(&mut client).await;
        assert!(answer.starts_with(status), "{answer}");
        if host == "a.test" {
            client.write_all(b"ping").await.unwrap();
            assert_eq!(exactly(&mut client, 4).await, b"ping");
        }
    }
}

fn send(control: &UnixStream, listener: OwnedFd) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(control, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty()).unwrap();
}

fn receive(control: &UnixStream) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(control, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    descriptors.next().and_then(|mut descriptors| descriptors.next()).expect("a descriptor")
}
