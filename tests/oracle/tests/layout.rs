//! The structs and numbers that provider-verbs declares are those of the crate rdma-sys: what bindgen
//! makes of the headers, and the unions that its authors have written by hand.

use std::collections::HashMap;

#[path = "../src/declared.rs"]
mod declared;

fn size<T>(name: &str) -> (String, i64, usize) {
    (name.to_owned(), size_of::<T>() as i64, 0)
}

const fn size_of_field<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! field {
    ($of:ident, $field:ident, $name:literal) => {
        (
            $name.to_owned(),
            std::mem::offset_of!(rdma_sys::$of, $field) as i64,
            size_of_field(|of: &rdma_sys::$of| &of.$field),
        )
    };
}

include!(concat!(env!("OUT_DIR"), "/told.rs"));

/// What provider-verbs says.
fn own() -> HashMap<String, (i64, usize)> {
    let mut own = HashMap::new();
    for each in declared::structs() {
        own.insert(each.name.to_owned(), (each.size as i64, 0));
        for (field, at, size) in each.fields() {
            own.insert(format!("{}.{field}", each.name), (at as i64, size));
        }
    }
    own.extend(declared::numbers().into_iter().map(|(name, value)| (name.to_owned(), (value, 0))));
    own
}

#[test]
fn layouts_and_numbers_are_those_of_rdma_sys() {
    let (own, told) = (own(), told());
    assert!(told.len() > 250, "{}", told.len());
    let differing: Vec<_> = told
        .iter()
        .filter(|(name, value, size)| own.get(name) != Some(&(*value, *size)))
        .map(|told| (told, own.get(&told.0)))
        .collect();
    assert!(differing.is_empty(), "(in rdma-sys, here): {differing:#?}");
}
