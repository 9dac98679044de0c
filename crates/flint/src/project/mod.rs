//! Creates new projects: the samples in `functions/wasm`, renamed.

mod template;

use std::{fs, io, path::Path};

pub(crate) use template::Template;

use crate::failure::Failure;

/// Writes a project called `name` into `directory`, which is created or empty. Returns the files' relative
/// paths.
pub(crate) fn write(template: Template, name: &str, directory: &Path) -> Result<Vec<&'static str>, Failure> {
    let failed =
        |path: &Path, error: &io::Error| Failure::local(format!("cannot write {}: {error}", path.display()));
    match fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => {
            return Err(Failure::usage(format!("{} is not empty", directory.display()))
                .hint("give a directory that does not exist yet"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::usage(format!("cannot read {}: {error}", directory.display()))),
    }
    let mut written = Vec::new();
    for (file, text) in template.files() {
        let path = directory.join(file);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        fs::write(&path, text.replace(template.sample(), name)).map_err(|error| failed(&path, &error))?;
        written.push(*file);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Template; 6] =
        [Template::Rust, Template::Go, Template::Js, Template::Python, Template::Java, Template::C];

    #[test]
    fn a_project_is_written_under_its_name_and_never_over_another() {
        for template in ALL {
            let dir = tempfile::tempdir().unwrap();
            let project = dir.path().join("greeter");
            let files = write(template, "greeter", &project).unwrap();
            assert!(files.contains(&"README.md") && files.contains(&"event.json"), "{template:?}");
            for file in files {
                let text = fs::read_to_string(project.join(file)).unwrap();
                assert!(!text.contains(template.sample()), "{template:?} {file} has the sample's name");
            }
            let failure = write(template, "greeter", &project).unwrap_err();
            assert!(failure.message.ends_with("is not empty"));
        }
    }

    #[test]
    fn every_file_of_a_sample_is_in_its_template() {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../functions/wasm");
        for template in ALL {
            let sample = samples.join(template.sample());
            let walk = ignore::WalkBuilder::new(&sample).hidden(false).require_git(false).build();
            let mut found: Vec<_> = walk
                .filter_map(Result::ok)
                .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
                .map(|entry| entry.path().strip_prefix(&sample).unwrap().to_str().unwrap().to_owned())
                .collect();
            found.sort();
            let mut files: Vec<_> = template.files().iter().map(|(file, _)| (*file).to_owned()).collect();
            files.sort();
            assert_eq!(files, found, "{template:?}");
        }
    }
}
