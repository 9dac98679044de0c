//! Names, ids, sizes, durations, versions, hosts and keys out of requests: what is accepted reads back the same.
#![no_main]

use std::str::FromStr;

use flint_model::{
    ActivationId, AliasName, ApiKey, ByteSize, Digest, EntityName, FunctionPath, HostPattern, Kind,
    NamespaceName, NatsServer, Qualifier, SecretBinding, SecretName, Version, parse_duration, show_duration,
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
    reads_back::<AliasName>(text);
    reads_back::<SecretName>(text);
    reads_back::<SecretBinding>(text);
    reads_back::<HostPattern>(text);
    if let Some(duration) = parse_duration(text) {
        assert_eq!(parse_duration(&show_duration(duration)), Some(duration), "{text:?}");
    }
    if let Ok(name) = EntityName::parse(text) {
        assert!(!name.as_str().contains('/') && name.as_str() != ".." && name.as_str() != ".");
        if let Some((plain, qualifier)) = Qualifier::split(&name) {
            assert!(text.strip_prefix(plain.as_str()).is_some_and(|rest| rest.starts_with('@')), "{text:?}");
            if let Qualifier::Alias(alias) = qualifier {
                assert!(alias.as_str().parse::<Version>().is_err(), "{text:?}");
            }
        }
    }
    if let Some(key) = ApiKey::parse(text) {
        assert!(ApiKey::parse(&key.expose()).is_some_and(|again| again == key));
    }
});
