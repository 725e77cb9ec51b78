//! C programs: compiled with this tree's headers against the library under test, and run with a
//! deadline.

use std::{
    io::Read,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::library;

/// Compiles `source` (a path below `tests/c`) into `binary`, warnings being errors.
///
/// # Panics
/// If the compiler refuses it.
pub fn compile(source: &str, binary: &Path) {
    let library = library();
    let directory = library.parent().expect("the library is in a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(root.join("../ffi/include"))
        .arg(root.join("c").join(source))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", directory.display()))
        .arg("-ldl")
        .arg("-o")
        .arg(binary)
        .status()
        .expect("run gcc");
    assert!(compiled.success(), "gcc refused {source}");
}

/// A started program, which has a deadline and does not outlive this value.
#[derive(Debug)]
pub struct Running {
    child: Child,
    late: Instant,
    ended: bool,
}

impl Running {
    /// Starts `command` with `args`. Its standard input is empty.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(command: Command, args: &[&str], deadline: Duration) -> Self {
        Self::spawn(command, args, deadline, Stdio::null())
    }

    /// Starts it with a standard input that stays open until [`Self::input`] is taken and dropped.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_with_input(command: Command, args: &[&str], deadline: Duration) -> Self {
        Self::spawn(command, args, deadline, Stdio::piped())
    }

    fn spawn(mut command: Command, args: &[&str], deadline: Duration, input: Stdio) -> Self {
        let child = command
            .args(args)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start a compiled program");
        Self { child, late: Instant::now() + deadline, ended: false }
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The other end of its standard input.
    pub fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Reads as many bytes of its standard output, waiting for them.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        let read = self.child.stdout.as_mut().expect("a pipe").read_exact(&mut bytes);
        if read.is_err() {
            let mut said = String::new();
            let _ = self.child.stderr.as_mut().expect("a pipe").read_to_string(&mut said);
            panic!("it ended before it said {count} bytes: {said}");
        }
        String::from_utf8(bytes).expect("text")
    }

    /// Waits for its good end; returns what else it wrote to standard output.
    ///
    /// # Panics
    /// If it fails or is late.
    pub fn output(self, what: &str) -> String {
        self.outputs(what).0
    }

    /// Waits for its good end. It prints nothing on standard output, as nobody asked it to.
    ///
    /// # Panics
    /// If it fails, is late, or does print something.
    pub fn finish(self, what: &str) {
        assert_eq!(self.output(what), "", "{what}");
    }

    /// Waits for its good end, without a word on standard output or standard error.
    ///
    /// # Panics
    /// If it fails, is late, or does print something.
    pub fn finish_silently(self, what: &str) {
        assert_eq!(self.outputs(what), (String::new(), String::new()), "{what}");
    }

    fn outputs(mut self, what: &str) -> (String, String) {
        let status = self.wait();
        let (mut output, mut said) = (String::new(), String::new());
        let _ = self.child.stdout.as_mut().expect("a pipe").read_to_string(&mut output);
        let _ = self.child.stderr.as_mut().expect("a pipe").read_to_string(&mut said);
        assert!(status.is_some_and(|status| status.success()), "{what}: {status:?}\n{said}");
        (output, said)
    }

    /// Ends it at once (SIGKILL).
    ///
    /// # Panics
    /// If it has ended by itself, with what it said.
    pub fn kill(mut self, what: &str) {
        if let Some(status) = self.child.try_wait().expect("wait for a child") {
            let mut said = String::new();
            let _ = self.child.stderr.as_mut().expect("a pipe").read_to_string(&mut said);
            panic!("{what} ended by itself: {status}\n{said}");
        }
        self.end();
    }

    /// `None` when it had to be ended.
    fn wait(&mut self) -> Option<ExitStatus> {
        while Instant::now() < self.late {
            if let Some(status) = self.child.try_wait().expect("wait for a child") {
                self.ended = true;
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        // Its children end with it.
        self.end();
        None
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.ended = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}
