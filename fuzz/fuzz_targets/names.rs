//! Names, ids, sizes, versions and keys out of requests: what is accepted reads back the same.
#![no_main]

use std::str::FromStr;

use flint_model::{
    ActivationId, ApiKey, ByteSize, Digest, EntityName, FunctionPath, Kind, NamespaceName, NatsServer,
    Version,
};
use libfuzzer_sys::fuzz_target;

fn reads_back<T: FromStr + ToString + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert!(value.to_string().parse::<T>().is_ok_and(|again| again == value), "{text:?}");
    }
}

fuzz_target!(|text: &str| {
    reads_back::<EntityName>(text);
    reads_back::<NamespaceName>(text);
    reads_back::<FunctionPath>(text);
    reads_back::<ActivationId>(text);
    reads_back::<ByteSize>(text);
    reads_back::<Digest>(text);
    reads_back::<Kind>(text);
    reads_back::<Version>(text);
    reads_back::<NatsServer>(text);
    if let Ok(name) = EntityName::parse(text) {
        assert!(!name.as_str().contains('/') && name.as_str() != ".." && name.as_str() != ".");
    }
    if let Some(key) = ApiKey::parse(text) {
        assert!(ApiKey::parse(&key.expose()).is_some_and(|again| again == key));
    }
});
