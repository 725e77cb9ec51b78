//! `percale bench`: two processes of this host, two that meet over TCP, and two libraries.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use percale_tests::{rig::scratch, upstream};

use super::{free_port, percale_in_time, said, until_listening};

/// What `percale bench` with these arguments does, in little time; `None` without the command.
fn bench(args: &[&str]) -> Option<Output> {
    let mut command = percale_in_time()?;
    command.args(["bench", "--time", "0.01"]).args(args);
    Some(command.output().expect("run the command"))
}

/// Times that a key stands in a document.
fn count(document: &str, key: &str) -> usize {
    document.matches(&format!("\"{key}\":")).count()
}

#[test]
fn every_figure_over_every_provider() {
    for provider in ["shm", "tcp", "tcp;ofi_rxm"] {
        let Some(output) = bench(&["-p", provider, "--sizes", "8,64K", "--json"]) else { return };
        let document = said(&output);
        assert!(output.status.success(), "{provider}: {document}");
        // Two sizes of latency and bandwidth, of writes and reads alone and in windows; three of words.
        assert_eq!(count(&document, "window"), 15, "{provider}: {document}");
        assert_eq!(count(&document, "p999"), 7, "{provider}: {document}");
    }
}

#[test]
fn a_table_and_a_drawing() {
    let file = scratch("bench.svg");
    let path = file.to_str().expect("letters");
    let args = ["latency", "bandwidth", "--sizes", "8,1K,64K", "--svg", path];
    let Some(output) = bench(&args) else { return };
    let table = said(&output);
    assert!(output.status.success(), "{table}");
    for part in ["latency: half of a round trip, microseconds\n", "64 KiB", "99.9 %", "MILLION/S"] {
        assert!(table.contains(part), "{table}");
    }
    let drawing = fs::read_to_string(file).expect("a drawing");
    assert!(
        drawing.starts_with("<svg ") && drawing.matches("<polyline ").count() == 2,
        "{drawing}"
    );
}

/// A server that ends after its first client, and where it listens; `None` without the command.
fn server() -> Option<(Child, String)> {
    let mut command = percale_in_time()?;
    let port = free_port();
    let place = format!("127.0.0.1:{port}");
    // At all addresses of both families, where clients of IPv4 look like those of IPv6.
    let both = std::net::TcpListener::bind("[::]:0").is_ok();
    let listen = if both { format!("[::]:{port}") } else { place.clone() };
    command.args(["bench", "--once", "--listen", &listen]).stderr(Stdio::piped());
    let server = command.spawn().expect("start a server");
    until_listening(&port);
    Some((server, place))
}

#[test]
fn another_host() {
    let Some((server, place)) = server() else { return };
    let output = bench(&["--to", &place, "--sizes", "8", "latency", "write"]);
    let served = server.wait_with_output().expect("the server's end");
    let said_to_us = output.map(|output| (output.status.success(), said(&output)));
    assert!(said_to_us.is_some_and(|(good, said)| good && said.contains(", tcp\n")));
    assert!(served.status.success(), "{}", said(&served));
}

#[test]
fn clients_that_do_not_come_to_an_end() {
    let Some((mut server, place)) = server() else { return };
    let mut client = percale_in_time().expect("the command is there");
    client.args(["bench", "--to", &place, "--time", "30", "write"]).stdout(Stdio::null());
    let mut client = client.process_group(0).spawn().expect("start a client");
    let mut told = BufReader::new(server.stderr.take().expect("a pipe")).lines();
    let measures = told.any(|line| line.is_ok_and(|line| line.ends_with(" measures")));
    // It is in the midst of something by then, or has not got there: the server ends all the same.
    thread::sleep(Duration::from_secs(2));
    let group = format!("-{}", client.id());
    let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
    let ended = [client.wait(), server.wait()];
    assert!(measures && killed.is_ok_and(|status| status.success()));
    assert!(ended[1].as_ref().is_ok_and(|status| status.success()), "{ended:?}");
}

#[test]
fn strangers_are_sent_away() {
    let Some((server, place)) = server() else { return };
    let stranger = TcpStream::connect(&place);
    let spoke = stranger.and_then(|mut to| to.write_all(b"GET / HTTP/1.1\r\n\r\n"));
    let served = server.wait_with_output().expect("the server's end");
    assert!(spoke.is_ok() && said(&served).contains("speaks something else"), "{}", said(&served));
}

#[test]
fn two_libraries() {
    let Some(other) = upstream() else { return eprintln!("there is no other library") };
    let other = other.to_str().expect("letters");
    let args = ["--vs", other, "-p", "shm", "--sizes", "8,4K", "--rounds", "2", "--json"];
    let Some(output) = bench(&args) else { return };
    let document = said(&output);
    assert!(output.status.success(), "{document}");
    assert!(
        document.contains("\"name\": \"Percale\"") && count(&document, "ratio") > 8,
        "{document}"
    );
}

#[test]
fn what_cannot_be_is_told() {
    let Some(output) = bench(&["-p", "shn"]) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("there is no such provider"), "{}", said(&output));
    let Some(output) = bench(&["--to", "127.0.0.1:1"]) else { return };
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}
