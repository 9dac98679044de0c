//! Compiles a Java source at deploy.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use flint_executor::PrepareError;

use super::{FUNCTION_JAR, JavaCompilers, Jdk, jar};

/// A source that has been compiled.
pub(crate) struct Compiled {
    /// Its main class.
    pub(crate) class: String,
    /// Whether a compiler had been waiting for it.
    pub(crate) awaited: bool,
}

/// Replaces the source `code/Main.java` with `code/function.jar`, which must contain the class `asked`.
pub(crate) async fn compile(
    compilers: &JavaCompilers,
    jdk: Jdk<'_>,
    artefact: &Path,
    asked: Option<&str>,
) -> Result<Compiled, PrepareError> {
    let failed = |operation: &'static str| {
        move |error: std::io::Error| PrepareError::Failed {
            operation: operation.into(),
            detail: error.to_string(),
        }
    };
    let code = artefact.join("code");
    let (source, made) = (code.join("Main.java"), code.join(FUNCTION_JAR));
    let text = fs::read_to_string(&source).map_err(failed("reading the source"))?;
    let Some(class) = main_type(&text) else {
        return Err(PrepareError::Code("the Java source declares no class".into()));
    };
    let name = class.rsplit('.').next().unwrap_or(&class);
    let awaited = compilers.compile(jdk, &format!("{name}.java"), &text, &made).await.map_err(|error| {
        error.of_build("compiling the Java source", |said| {
            format!("the Java source does not compile:\n{said}")
        })
    })?;
    let jar = fs::read(&made).map_err(failed("reading the classes"))?;
    jar::main_class(&jar, asked).map_err(PrepareError::Code)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o644)).map_err(failed("writing the jar"))?;
    fs::remove_file(&source).map_err(failed("removing the source"))?;
    Ok(Compiled { class, awaited })
}

/// The full name of the type that names the file: the public one, or else the first.
pub(super) fn main_type(source: &str) -> Option<String> {
    let text = outside_of_braces(&without_comments_and_strings(source));
    let package = words(&text).position(|word| word == "package").and_then(|at| words(&text).nth(at + 1));
    let all: Vec<&str> = words(&text).collect();
    let declares = |word: &str| matches!(word, "class" | "interface" | "enum" | "record");
    let types: Vec<(bool, &str)> = all
        .iter()
        .enumerate()
        .filter(|(_, word)| declares(word))
        .filter_map(|(at, _)| {
            let modifiers = all[..at].iter().rev().take_while(|word| is_modifier(word));
            Some((modifiers.into_iter().any(|word| *word == "public"), *all.get(at + 1)?))
        })
        .filter(|(_, name)| name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$'))
        .collect();
    let name = types.iter().find(|(public, _)| *public).or(types.first()).map(|(_, name)| *name)?;
    Some(package.map_or_else(|| name.to_owned(), |package| format!("{package}.{name}")))
}

fn is_modifier(word: &str) -> bool {
    ["public", "final", "abstract", "sealed", "non-sealed", "strictfp", "static"].contains(&word)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '-')))
        .filter(|word| !word.is_empty())
}

/// What is left of a source when its types have no bodies: types inside of others name no file.
fn outside_of_braces(text: &str) -> String {
    let mut depth = 0_usize;
    let outside = |letter: char| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => return letter,
            _ => {}
        }
        ' '
    };
    text.chars().map(outside).collect()
}

fn without_comments_and_strings(source: &str) -> String {
    let mut kept = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if let Some(block) = rest.strip_prefix("\"\"\"") {
            block.find("\"\"\"").map_or(rest.len(), |end| end + 6)
        } else if letter == '"' || letter == '\'' {
            end_of_literal(rest, letter)
        } else {
            kept.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        kept.push(' ');
        rest = &rest[skipped..];
    }
    kept
}

fn end_of_literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\n' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_type_names_the_file() {
        let source = "// class No\npackage a.b; /* class No */ import x.Y;\nclass Helper { String s = \"public class No\"; char q = '\"'; }\npublic final class Main<T> { }";
        assert_eq!(main_type(source).as_deref(), Some("a.b.Main"));
        assert_eq!(main_type("class Only {}").as_deref(), Some("Only"));
        assert_eq!(main_type("public record Point(int x) {}").as_deref(), Some("Point"));
        assert_eq!(main_type("int x;"), None);
    }

    #[test]
    fn a_type_inside_of_another_names_no_file() {
        let source = "@Note({\"a\", \"b\"}) class Main { public static class Inner { public enum Deep { A } } }\nclass Second { public record Point(int x) { } }";
        assert_eq!(main_type(source).as_deref(), Some("Main"));
        assert_eq!(
            main_type("interface Shape { }\npublic class Main { public interface Part { } }").as_deref(),
            Some("Main")
        );
    }
}
