//! The dynamic symbol table of the shared library, as a loader and `dlvsym` see it.

use std::{
    collections::BTreeSet,
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::PathBuf,
    process::Command,
};

/// Each name with its nodes; the default comes first.
const EXPORTS: [(&str, &[&str]); 17] = [
    ("fi_getinfo", &["1.9", "1.0", "1.1", "1.2", "1.3", "1.7", "1.8", "1.10"]),
    ("fi_freeinfo", &["1.9", "1.0", "1.1", "1.2", "1.3", "1.7", "1.8", "1.10"]),
    ("fi_dupinfo", &["1.9", "1.0", "1.1", "1.2", "1.3", "1.7", "1.8", "1.10"]),
    ("fi_fabric", &["1.1", "1.0"]),
    ("fi_fabric2", &["1.8"]),
    ("fi_version", &["1.0"]),
    ("fi_strerror", &["1.0"]),
    ("fi_tostr", &["1.0"]),
    ("fi_tostr_r", &["1.4"]),
    ("fi_getparams", &["1.0"]),
    ("fi_freeparams", &["1.0"]),
    ("fi_param_define", &["1.0"]),
    ("fi_param_get", &["1.0"]),
    ("fi_log", &["1.0"]),
    ("fi_log_enabled", &["1.0"]),
    ("fi_log_ready", &["1.6"]),
    ("fi_open", &["1.5"]),
];

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, symbol: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The shared library that cargo built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let path = test.with_file_name("libfabric.so");
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// The loaded library; never unloaded.
struct Loaded(*mut c_void);

impl Loaded {
    fn open() -> Self {
        let path = CString::new(library().into_os_string().into_encoded_bytes()).expect("a path");
        // SAFETY: the library's constructors have no requirements.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "the library does not load");
        Self(handle)
    }

    fn at(&self, name: &str, node: &str) -> *mut c_void {
        let name = CString::new(name).expect("a name");
        let node = CString::new(format!("FABRIC_{node}")).expect("a node");
        // SAFETY: the handle is open, the texts are terminated.
        unsafe { dlvsym(self.0, name.as_ptr(), node.as_ptr()) }
    }

    fn default(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("a name");
        // SAFETY: the handle is open, the text is terminated.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

#[test]
fn every_name_is_found_at_each_of_its_nodes() {
    let library = Loaded::open();
    for (name, nodes) in EXPORTS {
        for node in nodes {
            assert!(!library.at(name, node).is_null(), "{name}@FABRIC_{node}");
        }
        assert_eq!(library.default(name), library.at(name, nodes[0]), "{name}");
    }
}

#[test]
fn the_table_holds_nothing_else() {
    let output = Command::new("readelf")
        .args(["--wide", "--dyn-syms"])
        .arg(library())
        .output()
        .expect("this test needs readelf of binutils");
    let text = String::from_utf8_lossy(&output.stdout);
    let found: BTreeSet<_> = text
        .lines()
        .filter_map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let defined = columns.len() >= 8 && columns[6] != "UND" && columns[7] != "Name";
            (defined && !columns[7].starts_with("percale_")).then(|| columns[7].to_owned())
        })
        .collect();
    let expected: BTreeSet<_> = EXPORTS
        .iter()
        .flat_map(|(name, nodes)| {
            nodes.iter().enumerate().map(move |(index, node)| {
                format!("{name}{}FABRIC_{node}", if index == 0 { "@@" } else { "@" })
            })
        })
        .collect();
    assert_eq!(expected.len(), 39);
    assert_eq!(found, expected);
}

#[test]
fn the_soname_is_what_programs_link() {
    let output = Command::new("readelf")
        .args(["--wide", "--dynamic"])
        .arg(library())
        .output()
        .expect("this test needs readelf of binutils");
    assert!(String::from_utf8_lossy(&output.stdout).contains("[libfabric.so.1]"));
}

#[test]
fn functions_answer_through_their_nodes() {
    let library = Loaded::open();
    // SAFETY: the signatures are those of the headers.
    unsafe {
        let version: extern "C" fn() -> u32 = std::mem::transmute(library.at("fi_version", "1.0"));
        assert_eq!(version(), 2 << 16 | 6);

        let strerror: extern "C" fn(c_int) -> *const c_char =
            std::mem::transmute(library.at("fi_strerror", "1.0"));
        assert_eq!(CStr::from_ptr(strerror(-259)), c"Error available");

        let tostr: extern "C" fn(*const c_void, u32) -> *mut c_char =
            std::mem::transmute(library.at("fi_tostr", "1.0"));
        // A pointer is wanted even where no value is read.
        let unread = 0_u32;
        let text = CStr::from_ptr(tostr((&raw const unread).cast(), 18));
        assert!(text.to_bytes().starts_with(b"2.6.0 (percale "), "{text:?}");
    }
}

#[test]
fn variadic_functions_take_their_arguments() {
    let library = Loaded::open();
    // SAFETY: the signatures are those of the headers; the provider is not dereferenced.
    unsafe {
        let define: unsafe extern "C" fn(
            *const c_void,
            *const c_char,
            c_int,
            *const c_char,
            ...
        ) -> c_int = std::mem::transmute(library.at("fi_param_define", "1.0"));
        let refused =
            define(std::ptr::null(), c"size".as_ptr(), 1, c"%s: %d".as_ptr(), c"help".as_ptr(), 7);
        assert_eq!(refused, -22, "a parameter without a provider is refused");
    }
}
