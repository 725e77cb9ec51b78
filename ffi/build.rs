//! Compiles the two variadic entry points and gives the shared library its soname and the version
//! nodes of `libfabric.map`. The names behind the nodes are bound in `src/symbols.rs`.

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let map = format!("{root}/libfabric.map");

    // The archive must be linked whole: nothing in Rust refers to the functions it exports.
    cc::Build::new()
        .file("src/variadic.c")
        .std("c11")
        .warnings_into_errors(true)
        .cargo_metadata(false)
        .compile("percale_variadic");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static:+whole-archive=percale_variadic");

    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfabric.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={map}");
    println!("cargo::rerun-if-changed={map}");
    println!("cargo::rerun-if-changed=src/variadic.c");
}
