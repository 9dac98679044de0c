//! A synthesised `/etc`: the files that runtimes look up, and nothing about the host's accounts or services.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Copied from the host if they exist and everyone may read them: files, links, whole directories. A trailing
/// `*` matches any ending.
const COPIED: [&str; 26] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "host.conf",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "mime.types",
    "nodejs",
    "openssl*",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/java",
    "pki/tls",
    "protocols",
    "python*",
    "services",
    "ssl",
    "timezone",
];

/// Larger files and deeper trees are skipped.
const FILE_MAX: u64 = 4 << 20;
const DEPTH_MAX: usize = 8;

/// Fills the empty directory `etc`. With `resolvers`, names are resolved over the network.
pub(super) fn fill(etc: &Path, resolvers: Option<&[IpAddr]>) -> io::Result<()> {
    let files = [
        (
            "passwd",
            "root:x:0:0:root:/:/usr/sbin/nologin\nfunction:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
        ),
        ("group", "root:x:0:\nfunction:x:1000:\nnogroup:x:65534:\n"),
        ("hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
        ),
    ];
    for (name, content) in files {
        fs::write(etc.join(name), content)?;
    }
    if let Some(resolvers) = resolvers {
        fs::write(etc.join("resolv.conf"), resolv_conf(resolvers))?;
    }
    for pattern in COPIED {
        let (folder, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let host = Path::new("/etc").join(folder);
        for entry in fs::read_dir(&host).into_iter().flatten().flatten() {
            let entry_name = entry.file_name();
            let Some(text) = entry_name.to_str() else { continue };
            let wanted = name.strip_suffix('*').map_or(text == name, |stem| text.starts_with(stem));
            if wanted {
                fs::create_dir_all(etc.join(folder))?;
                copy(&entry.path(), &etc.join(folder).join(text), 0)?;
            }
        }
    }
    Ok(())
}

/// Copies what everyone on the host may read. Skips the rest, and private keys whatever their mode.
fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(from) else { return Ok(()) };
    let open = meta.permissions().mode() & 0o004 != 0;
    if meta.is_symlink() {
        symlink(fs::read_link(from)?, to)
    } else if meta.is_dir() && open && depth < DEPTH_MAX && !from.ends_with("private") {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)?.flatten() {
            copy(&entry.path(), &to.join(entry.file_name()), depth + 1)?;
        }
        Ok(())
    } else if meta.is_file() && open && meta.len() <= FILE_MAX {
        fs::copy(from, to).map(drop)
    } else {
        Ok(())
    }
}

fn resolv_conf(configured: &[IpAddr]) -> String {
    let host = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let mut lines: Vec<String> =
        name_servers(configured).iter().map(|address| format!("nameserver {address}")).collect();
    lines.extend(host.lines().filter(|line| line.starts_with("options ")).map(str::to_owned));
    lines.join("\n") + "\n"
}

/// The name servers of sandboxes with egress: the configured ones, or else those of the host that a sandbox
/// can reach.
pub(crate) fn name_servers(configured: &[IpAddr]) -> Vec<IpAddr> {
    choose(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default(), configured)
}

fn choose(resolv_conf: &str, configured: &[IpAddr]) -> Vec<IpAddr> {
    if !configured.is_empty() {
        return configured.to_vec();
    }
    resolv_conf
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver")?.trim().parse().ok())
        .filter(|address: &IpAddr| !address.is_loopback())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_resolvers_are_useless_inside() {
        assert!(choose("nameserver 127.0.0.53\n", &[]).is_empty());
        let host = "# x\nnameserver 198.51.100.1\nnameserver ::1\n";
        assert_eq!(choose(host, &[]), ["198.51.100.1".parse::<IpAddr>().unwrap()]);
        let configured = ["192.0.2.53".parse().unwrap()];
        assert_eq!(choose(host, &configured), configured, "whoever names some wants no others");
    }
}
