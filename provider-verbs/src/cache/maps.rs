//! SETUP. What the kernel says of the process's mappings (proc(5)).

use std::fs::read_to_string;

/// The whole of the mappings that a range is in, first and last byte's, if all of it is memory of this
/// process alone: of no file, which others could cut short without a notice, and shared with nobody.
pub(crate) fn private(start: usize, end: usize) -> Option<(usize, usize)> {
    covering(&read_to_string("/proc/self/maps").ok()?, start, end)
}

fn covering(maps: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    let (mut first, mut at) = (None, start);
    for line in maps.lines() {
        let map = Map::parse(line)?;
        if map.end <= at {
            continue;
        }
        if map.start > at || !map.private {
            return None;
        }
        first.get_or_insert(map.start);
        at = map.end;
        if at >= end {
            return Some((first?, at));
        }
    }
    None
}

struct Map {
    start: usize,
    end: usize,
    private: bool,
}

impl Map {
    /// `7f00-7f10 rw-p 00000000 00:00 0 [name]`
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let inode = words.nth(2)?;
        Some(Self {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            private: rights.ends_with('p') && inode == "0",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-2000 r--p 00000000 08:01 1234   /bin/true
2000-4000 rw-p 00000000 00:00 0
4000-5000 rw-p 00000000 00:00 0      [heap]
6000-7000 rw-s 00000000 00:00 0
7000-8000 rw-p 00000000 00:0e 99     /anon_hugepage (deleted)
";

    #[test]
    fn ranges_of_private_memory() {
        for (start, end, private) in [
            (0x2000, 0x4000, Some((0x2000, 0x4000))),
            (0x3000, 0x3800, Some((0x2000, 0x4000))),
            (0x3000, 0x4001, Some((0x2000, 0x5000))),
            (0x1000, 0x3000, None),
            (0x4000, 0x6000, None),
            (0x6000, 0x7000, None),
            (0x7000, 0x8000, None),
            (0x8000, 0x9000, None),
            (0x0, 0x1000, None),
        ] {
            assert_eq!(covering(MAPS, start, end), private, "{start:#x}..{end:#x}");
        }
        assert_eq!(covering("what?", 0x1000, 0x2000), None);
    }

    #[test]
    fn of_this_process() {
        let here = 0u8;
        let page = (&raw const here).addr() & !0xfff;
        assert!(private(page, page + 0x1000).is_some(), "the stack");
    }
}
