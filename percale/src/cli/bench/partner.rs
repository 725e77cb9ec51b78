//! The two workers, as their conductor has them: processes of this host, or a connection to another.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt;

use super::{
    PORT,
    words::{Order, Took, hex, lines, unhex, values},
};

/// What one order may take, and a worker to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a worker gets to end by itself.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// The first line to a server on another host is not longer.
const LINE: u64 = 256;

/// Why the workers cannot go on.
#[derive(Debug)]
pub(super) struct Trouble(pub(super) String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Who measures.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// This command.
    Own,
    /// The C program, on this library.
    Foreign { program: std::path::PathBuf, library: std::path::PathBuf },
}

/// Where workers are to be.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    pub(super) provider: Option<&'a str>,
    /// Of client and server.
    pub(super) processors: Option<[usize; 2]>,
    /// A server on another host.
    pub(super) host: Option<&'a str>,
}

/// Client and server.
pub(super) struct Pair {
    ends: [End; 2],
    lines: Receiver<(usize, Option<String>)>,
    pub(super) provider: String,
    pub(super) version: String,
    /// Whether there is memory to reach, and to change with atomic operations.
    pub(super) remote: bool,
    pub(super) atomics: bool,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;
const NAMES: [&str; 2] = ["client", "server"];

struct End {
    input: Option<Box<dyn Write>>,
    child: Option<Child>,
}

impl Pair {
    /// Starts both and makes them known to each other.
    pub(super) fn start(program: &Program, place: &Place<'_>) -> Result<Self, Trouble> {
        let (told, lines) = channel();
        let remote = place.host.map(TcpStream::connect).transpose()?;
        let node = remote
            .as_ref()
            .map(TcpStream::local_addr)
            .transpose()?
            .map(|at| at.ip().to_canonical());
        let node = node.map(|ip| ip.to_string());
        let local = |who| local(program, place, who, node.as_deref(), &told);
        let server = match remote {
            None => local(SERVER)?,
            Some(stream) => distant(stream, place, &told)?,
        };
        let ends = [local(CLIENT)?, server];
        let mut pair = Self {
            ends,
            lines,
            provider: String::new(),
            version: String::new(),
            remote: false,
            atomics: false,
        };
        pair.introduce()?;
        Ok(pair)
    }

    fn introduce(&mut self) -> Result<(), Trouble> {
        let ready = self.answers("ready ")?;
        for (who, about) in ready.iter().enumerate() {
            let values = values(about);
            let value = |name: &str| values.get(name).copied().unwrap_or_default();
            // What both have can be measured; names are equal, or are seen to differ.
            let first = who == 0;
            self.remote = (first || self.remote) && !value("remote").is_empty();
            self.atomics = (first || self.atomics) && value("atomics") == "1";
            if first {
                self.provider = value("provider").to_owned();
                self.version = value("version").to_owned();
            } else if self.provider != value("provider") {
                let both = format!("{} and {}", self.provider, value("provider"));
                return Err(Trouble(format!("the two ends have chosen {both}: --provider NAME")));
            }
            let known = |name: &str| unhex(value(name)).map(|bytes| hex(&bytes));
            let address =
                known("address").ok_or_else(|| Trouble("an end has no address".into()))?;
            let remote = known("remote").unwrap_or_default();
            self.say(1 - who, &format!("peer address={address} remote={remote}"))?;
        }
        self.answers("met").map(drop)
    }

    /// Has both do something; what the client has measured.
    pub(super) fn run(&mut self, order: Order) -> Result<Took, Trouble> {
        for who in [SERVER, CLIENT] {
            self.say(who, &order.to_string())?;
        }
        let answers = self.answers("done ")?;
        Took::parse(&answers[CLIENT]).ok_or_else(|| Trouble(format!("{order}: no figures")))
    }

    fn say(&mut self, who: usize, line: &str) -> Result<(), Trouble> {
        let gone = || Trouble(format!("the {} has ended", NAMES[who]));
        let input = self.ends[who].input.as_mut().ok_or_else(gone)?;
        input.write_all(format!("{line}\n").as_bytes()).map_err(|_| gone())
    }

    /// A line of each that begins as it should.
    fn answers(&self, start: &str) -> Result<[String; 2], Trouble> {
        let late = Instant::now() + PATIENCE;
        let mut answers = [String::new(), String::new()];
        while answers.iter().any(String::is_empty) {
            let left = late.saturating_duration_since(Instant::now());
            let (who, line) = match self.lines.recv_timeout(left) {
                Ok((who, Some(line))) => (who, line),
                Ok((who, None)) => return Err(Trouble(format!("the {} has ended", NAMES[who]))),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let who = answers.iter().position(String::is_empty).unwrap_or(SERVER);
                    return Err(Trouble(format!("no answer of the {}", NAMES[who])));
                }
            };
            if let Some(reason) = line.strip_prefix("failed ") {
                return Err(Trouble(format!("{}: {reason}", NAMES[who])));
            }
            if !line.starts_with(start) {
                return Err(Trouble(format!("the {} says {line:?}", NAMES[who])));
            }
            answers[who] = line;
        }
        Ok(answers)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in &mut self.ends {
            end.input = None;
        }
        let late = Instant::now() + GRACE;
        for child in self.ends.iter_mut().filter_map(|end| end.child.as_mut()) {
            while Instant::now() < late && matches!(child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(2));
            }
            // An error says that it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a worker of this host.
fn local(
    program: &Program,
    place: &Place<'_>,
    who: usize,
    node: Option<&str>,
    told: &Sender<(usize, Option<String>)>,
) -> Result<End, Trouble> {
    let mut command = match program {
        Program::Own => own_worker(who, place.provider, node)?,
        Program::Foreign { program, library } => {
            let mut command = Command::new(program);
            command.arg(library).arg(NAMES[who]).arg(place.provider.unwrap_or("-"));
            command
        }
    };
    if let Some(processors) = place.processors {
        match program {
            Program::Own => command.args(["--processors", &processors[who].to_string()]),
            Program::Foreign { .. } => command.arg(processors[who].to_string()),
        };
    }
    let failed = |error| Trouble(format!("{}: {error}", command_name(program).display()));
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(failed)?;
    if let Some(output) = child.stdout.take() {
        listen(output, who, told);
    }
    let input = child.stdin.take().map(|input| Box::new(input) as Box<dyn Write>);
    Ok(End { input, child: Some(child) })
}

fn command_name(program: &Program) -> &Path {
    match program {
        Program::Own => Path::new("percale"),
        Program::Foreign { program, .. } => program,
    }
}

/// This command as a worker.
fn own_worker(who: usize, provider: Option<&str>, node: Option<&str>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "--worker", NAMES[who]]);
    for (option, value) in [("--provider", provider), ("--node", node)] {
        if let Some(value) = value {
            // Others choose it, and cannot make another option of it.
            command.arg(format!("{option}={value}"));
        }
    }
    Ok(command)
}

/// Asks the command on another host for a server.
fn distant(
    mut stream: TcpStream,
    place: &Place<'_>,
    told: &Sender<(usize, Option<String>)>,
) -> Result<End, Trouble> {
    stream.set_nodelay(true)?;
    stream.write_all(format!("open {}\n", place.provider.unwrap_or("-")).as_bytes())?;
    listen(stream.try_clone()?, SERVER, told);
    Ok(End { input: Some(Box::new(stream)), child: None })
}

/// Hands a worker's lines on.
fn listen(output: impl Read + Send + 'static, who: usize, told: &Sender<(usize, Option<String>)>) {
    let told = told.clone();
    thread::spawn(move || {
        for line in lines(BufReader::new(output)).map_while(Result::ok) {
            if told.send((who, Some(line))).is_err() {
                return;
            }
        }
        let _ = told.send((who, None));
    });
}

/// Serves clients of other hosts, one after the other, each with a worker of its own.
pub(super) fn serve(
    at: Option<SocketAddr>,
    processor: Option<usize>,
    once: bool,
) -> Result<(), Trouble> {
    let listener = match at {
        Some(at) => TcpListener::bind(at).map_err(|error| Trouble(format!("{at}: {error}")))?,
        // Takes clients of IPv4, too, where there is IPv6.
        None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)))
            .map_err(|error| Trouble(format!("port {PORT}: {error}")))?,
    };
    eprintln!("percale: waiting for clients at {}", listener.local_addr()?);
    loop {
        let (stream, client) = listener.accept()?;
        eprintln!("percale: {client} measures");
        if let Err(trouble) = host(stream, processor) {
            eprintln!("percale: {client}: {trouble}");
        }
        if once {
            return Ok(());
        }
    }
}

/// A host that is there no more does not keep the next one waiting.
fn notice_death(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PATIENCE / 4)?;
    sockopt::set_tcp_keepintvl(stream, PATIENCE / 12)?;
    Ok(sockopt::set_tcp_keepcnt(stream, 3)?)
}

/// A worker that talks to the client itself.
fn host(stream: TcpStream, processor: Option<usize>) -> Result<(), Trouble> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let node = stream.local_addr()?.ip().to_canonical().to_string();
    // The client says no more before it has an answer, so nothing behind the line is lost.
    let mut line = String::new();
    BufReader::new(stream.try_clone()?.take(LINE)).read_line(&mut line)?;
    let provider = line.strip_prefix("open ").map(str::trim_end);
    let provider = provider.ok_or_else(|| Trouble("it speaks something else".to_owned()))?;
    stream.set_read_timeout(None)?;
    notice_death(&stream)?;
    let provider = Some(provider).filter(|name| *name != "-");
    let mut command = own_worker(SERVER, provider, Some(&node))?;
    if let Some(processor) = processor {
        command.args(["--processors", &processor.to_string()]);
    }
    let (input, output) = (OwnedFd::from(stream.try_clone()?), OwnedFd::from(stream));
    let mut child = command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).spawn()?;
    // It keeps no copy, so that the client sees the worker's end.
    drop(command);
    child.wait()?;
    Ok(())
}
