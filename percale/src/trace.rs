//! SETUP. Spans of the feature `tracing`, which is nothing without it.

/// The rest of the block is in a span of this name.
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::info_span!(target: "percale", $name $(, $field = %$value)*).entered();
    };
}

pub(crate) use span;

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{
        Event, Metadata, Subscriber,
        span::{Attributes, Id, Record},
    };

    use crate::{Access, Fabric};

    /// Notes the names of spans.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl Subscriber for Names {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "percale"
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.lock().unwrap().push(span.metadata().name());
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn opening_is_traced() {
        let names = Names::default();
        tracing::subscriber::with_default(names.clone(), || {
            let domain = Fabric::loopback().unwrap().domain().unwrap();
            let endpoint = domain.endpoint().unwrap();
            domain.peer(&endpoint.address().unwrap()).unwrap();
            domain.region(8, Access::Read).unwrap();
        });
        let names = names.0.lock().unwrap().join(" ");
        assert_eq!(names, "discover open_domain open_endpoint register");
    }
}
