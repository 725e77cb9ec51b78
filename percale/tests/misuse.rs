//! Misuses that the compiler refuses, and what it says.

#[test]
fn misuses_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
