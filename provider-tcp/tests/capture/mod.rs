//! Reads the records in `captures`.

use std::{fs, path::Path};

/// A record of one or more connections.
#[derive(Debug)]
pub(crate) struct Capture {
    /// File name without its suffix.
    pub(crate) name: String,
    /// Messages in the order in which they were seen.
    pub(crate) blocks: Vec<Block>,
}

/// A message.
pub(crate) struct Block {
    /// Direction and connection.
    pub(crate) way: String,
    /// Kind, as the record calls it.
    pub(crate) kind: String,
    /// Header and payload.
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let front = &self.bytes[..self.bytes.len().min(40)];
        write!(f, "{} {} of {} bytes {front:02x?}", self.way, self.kind, self.bytes.len())
    }
}

impl Block {
    /// Whether this is a connection message.
    pub(crate) fn is_cm(&self) -> bool {
        self.kind == "CM"
    }
}

impl Capture {
    /// The bytes of each direction, and whether they start behind the connection message.
    pub(crate) fn streams(&self) -> Vec<(Vec<u8>, bool)> {
        let mut ways: Vec<&str> = self.blocks.iter().map(|block| &block.way[..]).collect();
        ways.sort_unstable();
        ways.dedup();
        let stream = |way| {
            let blocks: Vec<_> = self.blocks.iter().filter(|block| block.way == way).collect();
            let bytes = blocks.iter().flat_map(|block| block.bytes.iter().copied()).collect();
            (bytes, !blocks[0].is_cm())
        };
        ways.into_iter().map(stream).collect()
    }
}

/// All records.
pub(crate) fn captures() -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let files = fs::read_dir(&folder).expect("the folder of records");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: &Path| {
        let text = fs::read_to_string(path).expect("a record of text");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        Capture { name, blocks: blocks(&text) }
    };
    paths.iter().map(|path| read(path)).collect()
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<(usize, Block)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((_, bytes)) = line.strip_prefix("  ").and_then(|line| line.split_once(": ")) {
            let (_, block) = blocks.last_mut().expect("a block before its bytes");
            let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
            block.bytes.extend(bytes.map(|byte| byte.expect("a hexadecimal byte")));
            continue;
        }
        let mut words = line.split_whitespace();
        let mut way = words.next().expect("a direction").to_owned();
        let mut block = Block { way: String::new(), kind: String::new(), bytes: Vec::new() };
        let mut length = 0;
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "connection" => way = format!("{way} {value}"),
                "length" => length = value.parse().expect("a length"),
                "kind" => value.clone_into(&mut block.kind),
                _ => {}
            }
        }
        block.way = way;
        blocks.push((length, block));
    }
    for (length, block) in &mut blocks {
        block.bytes.resize(*length, 0);
    }
    blocks.into_iter().map(|(_, block)| block).collect()
}
