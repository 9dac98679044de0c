//! JSON objects whose members keep their source text: numbers and order stay as they are.

use std::fmt;

use flint_model::last_wins;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;

/// Members in order, with unique keys.
#[derive(Clone, Debug, Default)]
pub(super) struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// The object; `None` if the value is something else.
    pub(super) fn of(value: &RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    /// The object itself, or an object with any other value as its only member.
    pub(super) fn boxed(value: &RawValue, key: &str) -> Self {
        Self::of(value).unwrap_or_else(|| Self(vec![(key.to_owned(), value.to_owned())]))
    }

    /// `{"error": text}`
    pub(super) fn error(text: &str) -> Self {
        Self(vec![("error".to_owned(), raw(text))])
    }

    pub(super) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| &**value)
    }

    /// Its size in bytes, without braces and escapes in keys.
    pub(super) fn size(&self) -> usize {
        let beside = "\"\":,".len();
        self.0.iter().map(|(key, value)| key.len() + value.get().len() + beside).sum()
    }

    fn of_members(members: Vec<(String, Box<RawValue>)>) -> Self {
        Self(last_wins(members, |(key, _)| key))
    }

    /// Overrides members with those of `over`.
    #[must_use]
    pub(super) fn merged(mut self, over: Option<&Self>) -> Self {
        let Some(over) = over else { return self };
        self.0.extend_from_slice(&over.0);
        Self::of_members(self.0)
    }

    /// The object as one value.
    pub(super) fn to_raw(&self) -> Box<RawValue> {
        raw(self)
    }
}

/// A value as text.
pub(super) fn raw<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawObject::of_members(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn value(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn members_keep_their_text_and_the_last_of_two_wins() {
        let text = r#"{"b":1.10,"a":12345678901234567890123,"c":{"x": 1}}"#;
        assert_eq!(RawObject::of(&value(text)).unwrap().to_raw().get(), text);
        let twice = RawObject::of(&value(r#"{"a":1,"b":2,"\u0061":3}"#)).unwrap();
        assert_eq!(twice.to_raw().get(), r#"{"a":3,"b":2}"#);
        let over = RawObject::of(&value(r#"{"b":9,"d":null}"#));
        assert_eq!(twice.merged(over.as_ref()).to_raw().get(), r#"{"a":3,"b":9,"d":null}"#);
    }

    /// An object as text, possibly with duplicate keys.
    fn text(members: &[(String, i32)]) -> String {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    proptest! {
        #[test]
        fn members_stay_in_order_and_the_last_wins(
            under in vec(("[a-e]{0,2}", 0..9_i32), 0..40), over in vec(("[a-e]{0,2}", 0..9_i32), 0..40),
        ) {
            let mut expected: Vec<(String, i32)> = Vec::new();
            for (key, value) in under.iter().chain(&over) {
                match expected.iter_mut().find(|(old, _)| old == key) {
                    Some((_, old)) => *old = *value,
                    None => expected.push((key.clone(), *value)),
                }
            }
            let object = |members: &[(String, i32)]| RawObject::of(&value(&text(members))).unwrap();
            let merged = object(&under).merged(Some(&object(&over))).to_raw();
            prop_assert_eq!(merged.get(), text(&expected));
        }
    }

    #[test]
    fn objects_of_200_000_keys_are_merged() {
        let members: Vec<_> = (0..200_000).map(|number| (number.to_string(), number)).collect();
        let object = RawObject::of(&value(&text(&members))).unwrap();
        assert_eq!(object.clone().merged(Some(&object)).to_raw().get(), text(&members));
    }

    #[test]
    fn what_is_no_object_is_boxed() {
        for (text, boxed) in
            [("7", r#"{"v":7}"#), ("null", r#"{"v":null}"#), ("[{}]", r#"{"v":[{}]}"#), ("{}", "{}")]
        {
            assert_eq!(RawObject::boxed(&value(text), "v").to_raw().get(), boxed);
        }
        assert!(RawObject::of(&value("[1]")).is_none());
    }
}
