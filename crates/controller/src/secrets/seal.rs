//! Encrypts one secret with ChaCha20-Poly1305 (RFC 8439), prefixed by a random nonce. Its namespace and name
//! are authenticated as associated data, so that a record moved to another namespace or name cannot be
//! decrypted.
//!
//! A random 96-bit nonce suffices for some billion writes under one key.

use flint_model::{NamespaceName, SecretName};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::keys::SecretKey;

fn cipher(key: &SecretKey) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, key.bytes()).ok().map(LessSafeKey::new)
}

/// The associated data. Names contain no NUL, so different pairs never look alike.
fn belongs_to(namespace: &NamespaceName, name: &SecretName) -> Aad<Vec<u8>> {
    Aad::from(format!("flint secret 1\0{namespace}\0{name}").into_bytes())
}

/// Encrypts a value; `None` if there are no random numbers.
pub(super) fn seal(
    key: &SecretKey,
    namespace: &NamespaceName,
    name: &SecretName,
    value: &[u8],
) -> Option<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).ok()?;
    let mut value = value.to_vec();
    let whose = belongs_to(namespace, name);
    cipher(key)?.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), whose, &mut value).ok()?;
    Some([&nonce[..], &value].concat())
}

/// Decrypts a value; `None` if it was not encrypted with this key for this name.
pub(super) fn open(
    key: &SecretKey,
    namespace: &NamespaceName,
    name: &SecretName,
    sealed: &[u8],
) -> Option<Vec<u8>> {
    let (nonce, value) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut value = value.to_vec();
    let whose = belongs_to(namespace, name);
    let opened = cipher(key)?.open_in_place(Nonce::assume_unique_for_key(*nonce), whose, &mut value).ok()?;
    Some(opened.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn names(namespace: &str, name: &str) -> (NamespaceName, SecretName) {
        (namespace.parse().unwrap(), name.parse().unwrap())
    }

    proptest! {
        #[test]
        fn a_value_comes_back_and_nothing_else_does(value in vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), bit in 0..8) {
            let key = SecretKey::generate().unwrap();
            let (guest, db) = names("guest", "db");
            let sealed = seal(&key, &guest, &db, &value).unwrap();
            let found = open(&key, &guest, &db, &sealed);
            prop_assert_eq!(found.as_ref(), Some(&value));
            // Fails with another key, another place, a changed bit, or a truncated text.
            prop_assert_eq!(open(&SecretKey::generate().unwrap(), &guest, &db, &sealed), None);
            for (namespace, name) in [("other", "db"), ("guest", "db2"), ("gues", "tdb")] {
                let (namespace, name) = names(namespace, name);
                prop_assert_eq!(open(&key, &namespace, &name, &sealed), None);
            }
            let mut changed = sealed.clone();
            changed[at.index(sealed.len())] ^= 1_u8 << bit;
            prop_assert_eq!(open(&key, &guest, &db, &changed), None);
            prop_assert_eq!(open(&key, &guest, &db, &sealed[..at.index(sealed.len())]), None);
            // Equal values have different ciphertexts.
            prop_assert_ne!(seal(&key, &guest, &db, &value).unwrap(), sealed);
        }
    }
}
