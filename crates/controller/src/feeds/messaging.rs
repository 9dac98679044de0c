//! Arguments of the feeds in `/whisk.system/messaging`.

use flint_model::{Deliver, FeedSource, NatsLogin, NatsServer, NatsSource};
use flint_nats::Reach;
use serde_json::{Map, Value, json};

use super::arguments::Arguments;

/// Maximum number of servers per feed.
const SERVERS: usize = 10;
/// Maximum length of a subject, group, stream name, user name or password.
const LONGEST: usize = 256;
/// Maximum length of credentials and of certificates.
const LONGEST_FILE: usize = 32 * 1024;

/// Login arguments: any of them replaces the whole login.
const LOGIN: [&str; 4] = ["user", "password", "token", "credentials"];

impl Arguments<'_> {
    /// The source of a new feed.
    pub(crate) fn nats_source(&self, reach: &Reach) -> Result<FeedSource, String> {
        let servers = self.servers()?.ok_or("natsFeed is missing the servers parameter")?;
        let subject = self.word("subject")?.ok_or("natsFeed is missing the subject parameter")?;
        let source = NatsSource {
            servers,
            subject: checked_subject(subject)?,
            queue: self.word("queue")?,
            stream: self.word("stream")?,
            deliver: self.deliver()?.unwrap_or_default(),
            json: self.get("isJSONData").is_some(),
            base64: self.get("isBinaryValue").is_some(),
            login: self.login()?,
            tls: self.get("tls").is_some(),
            ca: self.file("ca")?,
        };
        checked(source, reach).map(FeedSource::Nats)
    }

    /// The changed source of an existing feed; `None` if it stays.
    pub(crate) fn changed_nats(&self, old: &NatsSource, reach: &Reach) -> Result<Option<FeedSource>, String> {
        let flag = |name: &str, old| match self.given.get(name) {
            None | Some(Value::Null) => old,
            Some(_) => self.get(name).is_some(),
        };
        let logs_in_anew = LOGIN.iter().any(|name| self.get(name).is_some());
        let new = NatsSource {
            servers: self.servers()?.unwrap_or_else(|| old.servers.clone()),
            subject: self.word("subject")?.map_or(Ok(old.subject.clone()), checked_subject)?,
            queue: self.unless_given("queue", &old.queue, Self::word)?,
            stream: self.unless_given("stream", &old.stream, Self::word)?,
            deliver: self.deliver()?.unwrap_or(old.deliver),
            json: flag("isJSONData", old.json),
            base64: flag("isBinaryValue", old.base64),
            login: match logs_in_anew {
                true => self.login()?,
                false => old.login.clone(),
            },
            tls: flag("tls", old.tls),
            ca: self.unless_given("ca", &old.ca, Self::file)?,
        };
        if new == *old {
            return Ok(None);
        }
        // Stored secrets must not leak by being sent to another server or unencrypted.
        let is_known = new.servers.iter().all(|server| old.servers.contains(server)) && new.tls >= old.tls;
        if !is_known && !logs_in_anew && new.login != NatsLogin::Nobody {
            return Err("the login was given for other servers, or for tls: give it again".to_owned());
        }
        checked(new, reach).map(|source| Some(FeedSource::Nats(source)))
    }

    /// A list, or one text with commas.
    fn servers(&self) -> Result<Option<Vec<NatsServer>>, String> {
        let wrong = || "the servers parameter must be a list of [nats://|tls://]HOST[:PORT]".to_owned();
        let texts: Vec<&str> = match self.get("servers") {
            None => return Ok(None),
            Some(Value::String(text)) => text.split(',').collect(),
            Some(Value::Array(list)) => {
                list.iter().map(|one| one.as_str().ok_or_else(wrong)).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(wrong()),
        };
        if texts.is_empty() || texts.len() > SERVERS {
            return Err(format!("the servers parameter must name 1 to {SERVERS} servers"));
        }
        let servers: Result<Vec<NatsServer>, _> = texts.into_iter().map(str::parse).collect();
        servers.map(Some).map_err(|error| error.to_string())
    }

    fn deliver(&self) -> Result<Option<Deliver>, String> {
        match self.word("deliver")?.as_deref() {
            None => Ok(None),
            Some("new") => Ok(Some(Deliver::New)),
            Some("all") => Ok(Some(Deliver::All)),
            Some(_) => Err("the deliver parameter must be new or all".to_owned()),
        }
    }

    fn login(&self) -> Result<NatsLogin, String> {
        let [name, password, token] = [self.word("user")?, self.word("password")?, self.word("token")?];
        match (name, password, token, self.file("credentials")?) {
            (None, None, None, None) => Ok(NatsLogin::Nobody),
            (Some(name), Some(password), None, None) => Ok(NatsLogin::User { name, password }),
            (None, None, Some(token), None) => Ok(NatsLogin::Token(token)),
            (None, None, None, Some(text)) => Ok(NatsLogin::Credentials(text)),
            _ => Err("give user and password, or token, or credentials".to_owned()),
        }
    }

    /// The given value, with an empty text meaning none; otherwise the old one.
    fn unless_given(
        &self,
        name: &str,
        old: &Option<String>,
        read: impl Fn(&Self, &str) -> Result<Option<String>, String>,
    ) -> Result<Option<String>, String> {
        match self.given.get(name) {
            None | Some(Value::Null) => Ok(old.clone()),
            Some(_) => read(self, name),
        }
    }

    fn word(&self, name: &str) -> Result<Option<String>, String> {
        self.text(name, LONGEST)
    }

    fn file(&self, name: &str) -> Result<Option<String>, String> {
        self.text(name, LONGEST_FILE)
    }

    fn text(&self, name: &str, longest: usize) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= longest => Ok(Some(text.clone())),
            Some(Value::String(_)) => {
                Err(format!("the {name} parameter is longer than {longest} characters"))
            }
            Some(_) => Err(format!("the {name} parameter must be text")),
        }
    }
}

/// Refuses invalid sources.
fn checked(source: NatsSource, reach: &Reach) -> Result<NatsSource, String> {
    for server in &source.servers {
        reach.check(server).map_err(|error| error.to_string())?;
    }
    let token = |text: &str| {
        let legal = |byte: u8| byte.is_ascii_graphic() && !b".*>/\\".contains(&byte);
        !text.is_empty() && text.bytes().all(legal)
    };
    if source.queue.as_deref().is_some_and(|queue| !token(queue)) {
        return Err("the queue parameter must be letters and digits".to_owned());
    }
    match &source.stream {
        Some(stream) if !token(stream) => Err("the stream parameter must be the name of a stream".to_owned()),
        Some(_) if source.queue.is_some() => {
            Err("queue and stream cannot be used together: the messages of a stream are read by this trigger alone".to_owned())
        }
        _ => Ok(source),
    }
}

/// A NATS subject: tokens separated by dots, where `*` matches one token and `>` all that follow.
fn checked_subject(subject: String) -> Result<String, String> {
    let tokens: Vec<_> = subject.split('.').collect();
    let legal = |(at, token): (usize, &&str)| match *token {
        ">" => at + 1 == tokens.len(),
        "*" => true,
        token => {
            !token.is_empty()
                && !token.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>'))
        }
    };
    match tokens.iter().enumerate().all(legal) {
        true => Ok(subject),
        false => {
            Err(format!("'{subject}' is not a subject of NATS: write for example orders.new or orders.>"))
        }
    }
}

/// A source as users see it, without secrets.
pub(crate) fn shown(source: &NatsSource) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut set = |key: &str, value: Value| shown.insert(key.to_owned(), value);
    set("servers", json!(source.servers));
    set("subject", json!(source.subject));
    if let Some(queue) = &source.queue {
        set("queue", json!(queue));
    }
    if let Some(stream) = &source.stream {
        set("stream", json!(stream));
        set("deliver", json!(source.deliver));
    }
    set("isJSONData", json!(source.json));
    set("isBinaryValue", json!(source.base64));
    set("tls", json!(source.tls || source.servers.iter().any(|server| server.tls)));
    match &source.login {
        NatsLogin::Nobody => {}
        NatsLogin::User { name, .. } => drop(set("user", json!(name))),
        NatsLogin::Token(_) => drop(set("login", json!("token"))),
        NatsLogin::Credentials(_) => drop(set("login", json!("credentials"))),
    }
    shown
}

#[cfg(test)]
mod tests {
    use flint_model::Timestamp;

    use super::*;
    use crate::FeedsConfig;

    fn reach() -> Reach {
        let hosts = ["*.example.com", "b.example.com:5222"].map(|host| host.parse().unwrap());
        Reach { hosts: hosts.to_vec(), private: false }
    }

    fn with<T>(given: Value, use_them: impl FnOnce(Arguments<'_>) -> T) -> T {
        let Value::Object(given) = given else { panic!("arguments are an object") };
        let config = FeedsConfig::default();
        use_them(Arguments { given: &given, now: Timestamp::from_millis(1), config: &config })
    }

    fn source(given: Value) -> Result<NatsSource, String> {
        match with(given, |arguments| arguments.nats_source(&reach()))? {
            FeedSource::Nats(source) => Ok(source),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn feeds_are_told_by_their_arguments() {
        let plain = source(
            json!({"servers": "a.example.com,tls://b.example.com:5222", "subject": "orders.>", "queue": "q"}),
        );
        let plain = plain.unwrap();
        assert_eq!(plain.servers.len(), 2);
        assert_eq!(
            (plain.subject.as_str(), plain.queue.as_deref(), plain.stream),
            ("orders.>", Some("q"), None)
        );
        let stream = json!({
            "servers": ["a.example.com"], "subject": "orders.new", "stream": "ORDERS", "deliver": "all", "isJSONData": true,
            "user": "u", "password": "p", "tls": true,
        });
        let stream = source(stream).unwrap();
        assert_eq!((stream.deliver, stream.json, stream.tls), (Deliver::All, true, true));
        assert_eq!(stream.login, NatsLogin::User { name: "u".to_owned(), password: "p".to_owned() });
        let text = Value::from(shown(&stream)).to_string();
        assert!(text.contains("\"user\":\"u\"") && !text.contains("\"p\""), "{text}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let base = json!({"servers": ["a.example.com"], "subject": "s"});
        for (key, value, text) in [
            ("servers", json!(null), "natsFeed is missing the servers parameter"),
            ("servers", json!([]), "must name 1 to 10 servers"),
            ("servers", json!([7]), "must be a list"),
            ("servers", json!("ws://a.example.com"), "is not a server of NATS"),
            ("servers", json!("elsewhere.org"), "connections to nats://elsewhere.org:4222 are not allowed"),
            ("subject", json!(""), "natsFeed is missing the subject parameter"),
            ("subject", json!("a..b"), "is not a subject"),
            ("subject", json!("a.>.b"), "is not a subject"),
            ("subject", json!("a b"), "is not a subject"),
            ("subject", json!("x".repeat(257)), "longer than 256"),
            ("subject", json!(["s"]), "must be text"),
            ("queue", json!("a b"), "the queue parameter"),
            ("stream", json!("A.B"), "the stream parameter"),
            ("deliver", json!("last"), "must be new or all"),
            ("user", json!("u"), "give user and password"),
        ] {
            let mut given = base.clone();
            given[key] = value;
            let error = source(given).unwrap_err();
            assert!(error.contains(text), "{key}: {error}");
        }
        let both = source(json!({"servers": ["a.example.com"], "subject": "s", "queue": "q", "stream": "S"}));
        assert!(both.unwrap_err().contains("cannot be used together"));
        let off = with(base, |arguments| arguments.nats_source(&Reach::default()));
        assert!(off.unwrap_err().contains("feeds.nats_hosts"));
    }

    #[test]
    fn only_what_is_given_changes() {
        let old = source(
            json!({"servers": ["a.example.com"], "subject": "s", "token": "secret", "isJSONData": true}),
        )
        .unwrap();
        let changed = |given| with(given, |arguments| arguments.changed_nats(&old, &reach()));
        assert_eq!(changed(json!({"cron": "* * * * *"})), Ok(None));
        let Some(FeedSource::Nats(new)) = changed(json!({"subject": "t", "isJSONData": false})).unwrap()
        else {
            panic!("it changes")
        };
        assert_eq!((new.subject.as_str(), new.json, &new.login), ("t", false, &old.login));
        assert!(changed(json!({"user": "u"})).is_err());
        let elsewhere = json!({"servers": ["a.example.com", "b.example.com"]});
        assert!(changed(elsewhere).unwrap_err().contains("give it again"));
        let elsewhere = json!({"servers": ["b.example.com"], "token": "another"});
        assert!(matches!(changed(elsewhere), Ok(Some(_))));
        let grouped = NatsSource { queue: Some("q".to_owned()), ..old.clone() };
        let to_stream = json!({"queue": "", "stream": "S"});
        let changed = with(to_stream, |arguments| arguments.changed_nats(&grouped, &reach())).unwrap();
        let expected = NatsSource { stream: Some("S".to_owned()), ..old.clone() };
        assert_eq!(changed, Some(FeedSource::Nats(expected)));
    }
}
