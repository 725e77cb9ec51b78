//! `percale pingpong`: messages to and fro between two hosts, either of which may run `fi_pingpong`.

mod control;
mod link;

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    time::Instant,
};

use serde::Serialize;

use self::{
    control::{Control, Name},
    link::{Kind, Link, Opened, Trouble, Wish, received, sent},
};
use super::{figures, print};

/// Sends messages to and fro, and says how long they take. Without a host it waits for the other end.
///
/// The other end may be libfabric's fi_pingpong, of which the options are: both are to be given the
/// same iterations, sizes, endpoint type, mode and checks.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  percale pingpong -p tcp                   on one host, and on another
  percale pingpong -p tcp first.host -c
  fi_pingpong -p tcp -e rdm first.host      reaches it just as well

Exit status: 0, 1 if something failed, 2 for a wrong command line.")]
pub(crate) struct Args {
    /// The host that waits
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// Provider: shm, tcp, "tcp;ofi_rxm"
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,
    /// Domain, an interface or device name
    #[arg(short, long, value_name = "NAME")]
    domain: Option<String>,
    /// Endpoint type
    #[arg(short, long, value_name = "TYPE", default_value = "rdm")]
    endpoint: Kind,
    /// Round trips of each size
    #[arg(short = 'I', long, value_name = "COUNT", default_value = "10",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    iterations: u32,
    /// Bytes of the messages: a list, or `all`
    #[arg(short = 'S', long, value_name = "LIST", value_parser = sizes,
          default_value = "64,256,1K,4K,64K,1M")]
    sizes: Sizes,
    /// Check what comes
    #[arg(short, long)]
    check: bool,
    /// Kind of the messages
    #[arg(short, long, value_name = "MODE", value_parser = ["msg", "tagged"], default_value = "msg")]
    mode: String,
    /// Port to wait at for the control connection
    #[arg(short = 'B', long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// Port that the host waits at
    #[arg(short = 'P', long, value_name = "PORT", default_value_t = PORT)]
    to_port: u16,
    /// Control connection over IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Bytes of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sizes(Vec<usize>);

/// Where `fi_pingpong` waits.
const PORT: u16 = 47592;
/// The largest of the messages.
const LARGEST: usize = 1 << 26;
/// What is sent at the end, in both directions.
const LAST: &[u8] = b"fin\0";
/// The letters of checked messages.
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// How far each message begins behind the one before.
const STRIDE: usize = 7;

#[derive(Serialize)]
struct Document<'a> {
    provider: &'a str,
    endpoint: String,
    mode: &'a str,
    role: &'a str,
    checked: bool,
    figures: Vec<Row>,
}

/// What the messages of one size took.
#[derive(Clone, Copy, Debug, Serialize)]
struct Row {
    size: usize,
    iterations: usize,
    /// What the other end says that it has had.
    acknowledged: usize,
    seconds: f64,
    microseconds_per_transfer: f64,
    bytes_per_second: f64,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let text = play(args);
    match text {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Fabric(percale::Error::NoProvider(reasons))) => {
            eprintln!("percale: no provider fits");
            for reason in reasons.rejections() {
                eprintln!(
                    "  {}: {}: wanted {}, offered {}; {}",
                    reason.subject(),
                    reason.attribute,
                    reason.wanted,
                    reason.offered,
                    reason.fix
                );
            }
            ExitCode::FAILURE
        }
        Err(trouble) => {
            eprintln!("percale: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn play(args: &Args) -> Result<(), Trouble> {
    let is_server = args.host.is_none();
    let mut wish = Wish {
        provider: args.provider.as_deref(),
        domain: args.domain.as_deref(),
        kind: args.endpoint,
        is_tagged: args.mode == "tagged",
        node: None,
    };
    if args.endpoint == Kind::Dgram {
        // Nobody need come for that.
        Opened::open(&wish)?;
    }
    let mut control = Control::over(meet(args)?, is_server)?;
    wish.node = own_address(control.stream()).filter(|_| args.provider.as_deref() != Some("shm"));
    let opened = Opened::open(&wish)?;
    let both_have_names = args.endpoint != Kind::Msg;
    // The server speaks first; of connections it alone has an address to tell.
    let link = opened.link(is_server, |own: Option<Name>| {
        let mut other = None;
        if !is_server {
            other = Some(control.receive_name()?);
        }
        if let Some(own) = &own {
            control.send_name(own)?;
        }
        if is_server && both_have_names {
            other = Some(control.receive_name()?);
        }
        Ok(other)
    })?;

    let mut game = Game { link, control, messages: 0, args, is_server };
    let mut rows = Vec::new();
    for size in &args.sizes.0 {
        rows.push(game.rally(*size)?);
    }
    game.end()?;
    let text = if args.json {
        let document = Document {
            provider: opened.provider,
            endpoint: format!("{:?}", args.endpoint).to_ascii_lowercase(),
            mode: &args.mode,
            role: if is_server { "server" } else { "client" },
            checked: args.check,
            figures: rows,
        };
        // Strings, numbers and lists of them cannot fail to become JSON.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    } else {
        table(&rows)
    };
    Ok(print(&text)?)
}

/// The control connection.
fn meet(args: &Args) -> Result<TcpStream, Trouble> {
    let Some(host) = &args.host else {
        let at: SocketAddr = match args.ipv6 {
            true => (Ipv6Addr::UNSPECIFIED, args.port).into(),
            false => (Ipv4Addr::UNSPECIFIED, args.port).into(),
        };
        return Ok(TcpListener::bind(at)?.accept()?.0);
    };
    let mut last = None;
    for at in std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), args.to_port))? {
        if at.is_ipv6() == args.ipv6 {
            match TcpStream::connect(at) {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    last = Some(std::io::Error::new(error.kind(), format!("{at}: {error}")))
                }
            }
        }
    }
    let none = || std::io::Error::other(format!("{host} has no address of this family"));
    Err(last.unwrap_or_else(none).into())
}

/// The address by which the other host knows this one; within a host it is left to the provider.
fn own_address(control: &TcpStream) -> Option<String> {
    let own = control.local_addr().ok()?.ip().to_canonical();
    (!own.is_loopback()).then(|| own.to_string())
}

/// Messages to and fro.
struct Game<'a> {
    link: Link,
    control: Control<TcpStream>,
    /// Those in each direction so far.
    messages: usize,
    args: &'a Args,
    is_server: bool,
}

impl Game<'_> {
    /// The messages of one size.
    fn rally(&mut self, size: usize) -> Result<Row, Trouble> {
        let count = self.args.iterations as usize;
        let mut out = vec![0; size];
        // There is room for a message before the other end may send it.
        let mut receive = Some(self.link.receive(Vec::with_capacity(size)));
        let mut left = count;
        self.control.meet()?;
        let begin = Instant::now();
        while let Some(awaited) = receive {
            left -= 1;
            if !self.is_server {
                out = self.send(out)?;
            }
            let room = self.check(received(awaited)?, size)?;
            receive = (left > 0).then(|| self.link.receive(room));
            if self.is_server {
                out = self.send(out)?;
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let acknowledged = self.control.count(count)?;
        let transfers = (2 * count) as f64;
        Ok(Row {
            size,
            iterations: count,
            acknowledged,
            seconds,
            microseconds_per_transfer: seconds * 1e6 / transfers,
            bytes_per_second: size as f64 * transfers / seconds,
        })
    }

    fn send(&self, mut message: Vec<u8>) -> Result<Vec<u8>, Trouble> {
        if self.args.check {
            // The client sends a message before it has the other one of the same number.
            fill(&mut message, self.messages - usize::from(self.is_server));
        }
        sent(self.link.send(message))
    }

    fn check(
        &mut self,
        message: percale::Received<Vec<u8>>,
        size: usize,
    ) -> Result<Vec<u8>, Trouble> {
        let number = self.messages;
        self.messages += 1;
        let what =
            |what: &str| Trouble::Content(format!("message {number} of {size} bytes {what}"));
        if message.len != size {
            return Err(what(&format!("has {}", message.len)));
        }
        if self.args.check {
            let mut wanted = vec![0; size];
            fill(&mut wanted, number);
            if let Some(at) = wanted.iter().zip(&message.buffer).position(|(a, b)| a != b) {
                return Err(what(&format!("is wrong at byte {at}")));
            }
        }
        Ok(message.buffer)
    }

    /// Both tell each other that it is over.
    fn end(&self) -> Result<(), Trouble> {
        let receive = self.link.receive(Vec::with_capacity(LAST.len()));
        let send = self.link.send_last(LAST.to_vec());
        let last = received(receive)?;
        if last.buffer != LAST {
            return Err(Trouble::Content("the last message is another".to_owned()));
        }
        // The other end may go away as soon as it has had the message, before it has said so.
        let _ = sent(send);
        Ok(())
    }
}

/// The bytes of a message by its number.
fn fill(message: &mut [u8], number: usize) {
    let start = number % LETTERS.len() * STRIDE;
    for (i, byte) in message.iter_mut().enumerate() {
        *byte = LETTERS[(start + i) % LETTERS.len()];
    }
}

fn table(rows: &[Row]) -> String {
    let head = ["SIZE", "SENT", "ACK", "SECONDS", "MB/S", "MICROSECONDS", "MILLION/S"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        cells.push(vec![
            figures::bytes(row.size),
            row.iterations.to_string(),
            row.acknowledged.to_string(),
            figures::short(row.seconds),
            figures::short(row.bytes_per_second / 1e6),
            figures::short(row.microseconds_per_transfer),
            figures::short(1.0 / row.microseconds_per_transfer),
        ]);
    }
    figures::aligned(&cells)
}

fn sizes(text: &str) -> Result<Sizes, String> {
    if text == "all" {
        // As fi_pingpong has them.
        let pairs = (2..23).flat_map(|k| [1 << k, 3 << (k - 1)]);
        return Ok(Sizes([0, 1, 2, 3].into_iter().chain(pairs).collect()));
    }
    let sizes: Result<Vec<usize>, String> =
        text.split(',').map(|size| figures::size(size, 0..=LARGEST)).collect();
    Ok(Sizes(sizes?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_as_recorded() {
        let text = |number| {
            let mut message = [0; 12];
            fill(&mut message, number);
            String::from_utf8(message.to_vec()).unwrap()
        };
        assert_eq!(text(0), "0123456789ab");
        assert_eq!(text(1), "789abcdefghi");
        assert_eq!(text(8), "UVWXYZ012345");
        assert_eq!(text(9), "123456789abc");
        assert_eq!(text(62), text(0));
    }

    #[test]
    fn lists_of_sizes() {
        assert_eq!(sizes("8,4K"), Ok(Sizes(vec![8, 4096])));
        assert_eq!(sizes("0"), Ok(Sizes(vec![0])));
        assert!(sizes("8,x").is_err() && sizes("1G").is_err());
        let Sizes(all) = sizes("all").unwrap();
        assert_eq!((all.len(), all.last()), (46, Some(&6_291_456)));
    }
}
