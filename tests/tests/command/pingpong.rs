//! `percale pingpong` and the distribution's `fi_pingpong`, each at either end.

use std::process::{Command, Stdio};

use percale_tests::library;

use super::{free_port, in_time, percale_in_time, said, text, until_listening};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Percale,
    Other,
}

use End::{Other, Percale};

fn command(end: End) -> Option<Command> {
    let mut command = match end {
        Percale => percale_in_time()?,
        Other => in_time("fi_pingpong"),
    };
    match end {
        Percale => command.arg("pingpong"),
        Other => command.env("LD_LIBRARY_PATH", library().parent().expect("a folder")),
    };
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// Plays between a server and a client; what the client has printed. `None` without the command.
fn play(server: End, client: End, args: &[&str]) -> Option<String> {
    let port = free_port();
    let (mut server_side, mut client_side) = (command(server)?, command(client)?);
    let waiting = server_side.args(args).args(["-B", &port]).spawn().expect("start a server");
    until_listening(&port);
    let asked = client_side.args(args).args(["-P", &port, "127.0.0.1"]).output();
    let (asked, waited) = (asked.expect("run a client"), waiting.wait_with_output());
    let waited = waited.expect("the server's end");
    for output in [&waited, &asked] {
        assert!(
            output.status.success(),
            "{server:?} and {client:?}, {args:?}:\n{}\n{}",
            said(&waited),
            said(&asked),
        );
    }
    Some(text(&asked.stdout))
}

/// All default sizes with checked contents, each program at each end.
fn each_way(args: &[&str]) {
    for (server, client) in [(Percale, Other), (Other, Percale), (Percale, Percale)] {
        let args = [args, &["-c", "-I", "5"]].concat();
        let Some(table) = play(server, client, &args) else { return };
        assert_eq!(table.lines().count(), 7, "{table}");
    }
}

#[test]
fn reliable_datagrams_over_shm() {
    each_way(&["-p", "shm", "-e", "rdm"]);
}

#[test]
fn tagged_messages_over_shm() {
    each_way(&["-p", "shm", "-e", "rdm", "-m", "tagged"]);
}

#[test]
fn reliable_datagrams_over_tcp() {
    each_way(&["-p", "tcp", "-e", "rdm"]);
}

#[test]
fn tagged_messages_over_tcp() {
    each_way(&["-p", "tcp", "-e", "rdm", "-m", "tagged"]);
}

#[test]
fn connections_over_tcp() {
    each_way(&["-p", "tcp", "-e", "msg"]);
}

#[test]
fn datagrams_over_connections() {
    each_way(&["-p", "tcp;ofi_rxm", "-e", "rdm"]);
}

#[test]
fn every_size() {
    for (server, client) in [(Percale, Other), (Other, Percale)] {
        let args = ["-p", "shm", "-e", "rdm", "-S", "all", "-c", "-I", "3"];
        let Some(table) = play(server, client, &args) else { return };
        assert_eq!(table.lines().count(), 47, "{table}");
    }
}

#[test]
fn a_document() {
    let Some(document) = play(Percale, Percale, &["-p", "shm", "--json", "-S", "8,4K"]) else {
        return;
    };
    for part in [r#""provider": "shm""#, r#""role": "client""#, r#""size": 4096"#] {
        assert!(document.contains(part), "{document}");
    }
}

#[test]
fn what_no_provider_has_is_refused_with_reasons() {
    let Some(mut command) = command(Percale) else { return };
    let output = command.args(["-e", "dgram", "-p", "tcp"]).output().expect("run the command");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("ep_attr.type"), "{}", said(&output));
}
