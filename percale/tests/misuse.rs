//! Misuses that the compiler refuses, and what it says.

#[test]
fn misuses_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}

/// What compilers print of standard types differs with what is installed, so this one is asked for
/// in another way: the call has one meaning only as long as the type is not `Send`.
mod objects_without_locks_stay_on_their_thread {
    use percale::{Any, Counter, Domain, Endpoint, Local};

    trait OneMeaning<Which> {
        fn holds() {}
    }
    impl<T: ?Sized> OneMeaning<()> for T {}
    impl<T: ?Sized + Send> OneMeaning<u8> for T {}

    #[test]
    fn none_is_send() {
        <Domain<Any<Local>> as OneMeaning<_>>::holds();
        <Endpoint<Any<Local>> as OneMeaning<_>>::holds();
        <Counter<Any<Local>> as OneMeaning<_>>::holds();
    }

    #[test]
    fn others_are() {
        const fn sent<T: Send + Sync>() {}
        sent::<Domain>();
        sent::<Endpoint>();
        sent::<Counter>();
    }
}
