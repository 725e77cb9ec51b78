//! The connection beside the fabric, on which the two ends of a ping-pong agree.
//!
//! The words are those of libfabric's `fi_pingpong`, so that either end may be that program. They are
//! described in the book, under "The ping-pong's control connection".

use std::{
    io::{self, Error, ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// How long the other end may take to say something. It opens its endpoint meanwhile, or moves the
/// messages of one size.
const PATIENCE: Duration = Duration::from_secs(60);
/// No address is longer.
const ADDRESS: usize = 4096;

const ASK: &[u8; 2] = b"q\0";
const ANSWER: &[u8; 2] = b"a\0";
/// What says that a count has come.
const COUNTED: &[u8; 7] = b"cnt ok\0";
/// A count is a decimal number in a field of this length, filled up with zeros.
const FIELD: usize = 10;

/// An endpoint's address, and of which kind (`FI_SOCKADDR_IN` and the like).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) format: u32,
    pub(super) bytes: Vec<u8>,
}

/// One end.
#[derive(Debug)]
pub(super) struct Control<S> {
    stream: S,
    is_server: bool,
}

impl Control<TcpStream> {
    pub(super) fn over(stream: TcpStream, is_server: bool) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, is_server })
    }

    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl<S: Read + Write> Control<S> {
    /// Tells an endpoint's address.
    pub(super) fn send_name(&mut self, name: &Name) -> io::Result<()> {
        let len = u32::try_from(name.bytes.len()).map_err(|_| strange("an address too long"))?;
        // The kind stands as the sender's processor has it.
        let head = [len.to_be_bytes(), name.format.to_ne_bytes()].concat();
        self.stream.write_all(&[head.as_slice(), &name.bytes].concat())
    }

    /// Hears the other end's.
    pub(super) fn receive_name(&mut self) -> io::Result<Name> {
        let (mut len, mut format) = ([0; 4], [0; 4]);
        self.read(&mut len)?;
        self.read(&mut format)?;
        let len = u32::from_be_bytes(len) as usize;
        if len > ADDRESS {
            return Err(strange("an address that is too long"));
        }
        let mut bytes = vec![0; len];
        self.read(&mut bytes)?;
        Ok(Name { format: u32::from_ne_bytes(format), bytes })
    }

    /// Ready for the messages of the next size, when both are.
    pub(super) fn meet(&mut self) -> io::Result<()> {
        if self.is_server {
            self.expect(ASK)?;
            self.stream.write_all(ANSWER)
        } else {
            self.stream.write_all(ASK)?;
            self.expect(ANSWER)
        }
    }

    /// The client tells how many messages it has had, the server hears that.
    pub(super) fn count(&mut self, own: usize) -> io::Result<usize> {
        let mut field = [0; FIELD];
        if self.is_server {
            self.read(&mut field)?;
            self.stream.write_all(COUNTED)?;
            let digits = field.split(|byte| *byte == 0).next().unwrap_or_default();
            let count = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
            count.ok_or_else(|| strange("a count that is no number"))
        } else {
            let text = own.to_string();
            let room = field.get_mut(..text.len()).ok_or_else(|| strange("too many messages"))?;
            room.copy_from_slice(text.as_bytes());
            self.stream.write_all(&field)?;
            self.expect(COUNTED)?;
            Ok(own)
        }
    }

    fn expect(&mut self, word: &[u8]) -> io::Result<()> {
        let mut said = vec![0; word.len()];
        self.read(&mut said)?;
        if said == word { Ok(()) } else { Err(strange("another word than is its turn")) }
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(room).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                Error::new(ErrorKind::ConnectionAborted, "the other end has gone")
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Error::new(ErrorKind::TimedOut, "the other end says nothing")
            }
            _ => error,
        })
    }
}

fn strange(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the other end sends {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has been said and what is heard.
    struct Tape {
        heard: io::Cursor<Vec<u8>>,
        said: Vec<u8>,
    }

    impl Read for Tape {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.heard.read(room)
        }
    }

    impl Write for Tape {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.said.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn end(is_server: bool, heard: &[u8]) -> Control<Tape> {
        let heard = io::Cursor::new(heard.to_vec());
        Control { stream: Tape { heard, said: Vec::new() }, is_server }
    }

    /// As recorded of the program, on a little-endian host.
    const NAME: &[u8] = b"\0\0\0\x10\x02\0\0\0\x02\0\x89\x8f\x7f\0\0\x01\0\0\0\0\0\0\0\0";

    #[cfg(target_endian = "little")]
    #[test]
    fn names_as_recorded() {
        let name = end(true, NAME).receive_name().unwrap();
        assert_eq!((name.format, name.bytes.len()), (2, 16));
        let mut other = end(false, b"");
        other.send_name(&name).unwrap();
        assert_eq!(other.stream.said, NAME);
    }

    #[test]
    fn words_as_recorded() {
        let mut client = end(false, b"a\0cnt ok\0");
        client.meet().unwrap();
        assert_eq!(client.count(12).unwrap(), 12);
        assert_eq!(client.stream.said, b"q\x0012\0\0\0\0\0\0\0\0");
        let mut server = end(true, b"q\x0012\0\0\0\0\0\0\0\0");
        server.meet().unwrap();
        assert_eq!(server.count(0).unwrap(), 12);
        assert_eq!(server.stream.said, b"a\0cnt ok\0");
    }

    #[test]
    fn strangers_are_refused() {
        let kind = |result: io::Result<()>| result.unwrap_err().kind();
        let name = |bytes: &[u8]| end(true, bytes).receive_name().map(drop);
        assert_eq!(kind(name(b"\xff\xff\xff\xff\x02\0\0\0")), ErrorKind::InvalidData);
        assert_eq!(kind(name(&NAME[..20])), ErrorKind::ConnectionAborted);
        assert_eq!(kind(end(false, b"q\0").meet()), ErrorKind::InvalidData);
        assert_eq!(
            kind(end(true, b"ten\0\0\0\0\0\0\0").count(0).map(drop)),
            ErrorKind::InvalidData
        );
        assert_eq!(kind(end(false, b"").count(usize::MAX).map(drop)), ErrorKind::InvalidData);
    }
}
