//! Recognises project files of other platforms by their text, since the YAML parser here may reject them.

/// The platform of a foreign file, and the line that reveals it.
pub(super) fn platform_of(text: &str) -> Option<(usize, &'static str)> {
    let mut top = "";
    for (at, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or(line);
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let is_top = !line.starts_with([' ', '\t', '-', '#']) && !line.trim().is_empty();
        let [key, value] = [key, value].map(|part| part.trim().trim_matches(['"', '\'']));
        if is_top {
            top = key;
        }
        let what = match (top, key) {
            ("provider", "name") if !is_top && matches!(value, "openfaas" | "faas") => {
                "a stack file of OpenFaaS"
            }
            ("Transform", _) if line.contains("AWS::Serverless") => "a template of AWS SAM",
            ("AWSTemplateFormatVersion", _) if is_top => "a template of AWS SAM or CloudFormation",
            _ => continue,
        };
        return Some((at + 1, what));
    }
    None
}
