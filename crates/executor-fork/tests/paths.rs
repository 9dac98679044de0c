//! What asks for paths below `/tmp` is told them, although a clone's `/tmp` is mounted nowhere.

mod support;

use serde_json::json;
use support::{House, handler};

const PYTHON: &str = r#"
import os, pathlib, tempfile
def kept(database):
    with database:
        database.execute('pragma journal_mode = wal')
        database.execute('create table numbers (n integer)')
        database.execute('insert into numbers values (7)')
    return database.execute('select n from numbers').fetchone()[0]
def main(params):
    import sqlite3
    os.makedirs('/tmp/a/b')
    open('/tmp/a/b/file', 'w').write('x')
    os.symlink('/tmp/a/b/file', '/tmp/link')
    answer = {
        'real': [os.path.realpath(path) for path in ('/tmp', '/tmp/', '/tmp/a/../a/b/file', '/tmp/link', '/tmp/a/none', '/var/tmp/a', '/function', '/none/x')],
        'bytes': os.path.realpath(b'/tmp/link').decode(),
        'resolved': str(pathlib.Path('/tmp/a/b/../b').resolve()),
        'began': os.getcwd(),
        'database': kept(sqlite3.connect('/tmp/a/kept.db')),
        'beside it': sorted(os.listdir('/tmp/a')),
    }
    try:
        os.path.realpath('/tmp/a/none', strict=True)
    except FileNotFoundError:
        answer['strict'] = True
    os.chdir('/tmp')
    answer['root'] = [os.getcwd(), os.path.abspath('x'), os.path.realpath('link')]
    os.chdir('a/b')
    answer['below'] = [os.getcwd(), os.getcwdb().decode(), str(pathlib.Path.cwd()), os.path.exists(os.path.abspath('file'))]
    answer['made'] = os.path.realpath(tempfile.mkdtemp(dir='.')).startswith('/tmp/a/b/')
    os.mkdir('/tmp/gone'); os.chdir('/tmp/gone'); os.rmdir('/tmp/gone')
    try:
        os.getcwd()
    except FileNotFoundError:
        answer['gone'] = True
    return answer
"#;

const NODE: &str = r"
const fs = require('fs'), path = require('path');
exports.main = async () => {
  fs.mkdirSync('/tmp/a/b', { recursive: true });
  fs.writeFileSync('/tmp/a/b/file.js', 'module.exports = __filename;');
  fs.symlinkSync('/tmp/a/b/file.js', '/tmp/link');
  const answer = {
    real: ['/tmp', '/tmp/', '/tmp/a/../a/b/file.js', '/tmp/link', '/function'].map((file) => fs.realpathSync(file)),
    native: fs.realpathSync.native('/tmp/link'),
    promised: await fs.promises.realpath('/tmp/a/b'),
    called: await new Promise((done, failed) => { fs.realpath('/tmp/link', (error, found) => (error ? failed(error) : done(found))); }),
    bytes: fs.realpathSync('/tmp/link', 'buffer').toString(),
    module: require('/tmp/a/b/file.js'),
    began: process.cwd(),
  };
  try { fs.realpathSync('/tmp/none'); } catch (error) { answer.none = error.code; }
  answer.nobody = await fs.promises.realpath('/tmp/none').catch((error) => error.code);
  process.chdir('/tmp');
  answer.root = [process.cwd(), path.resolve('x')];
  process.chdir('a/b');
  answer.below = [process.cwd(), fs.existsSync(path.resolve('file.js'))];
  fs.mkdirSync('/tmp/gone'); process.chdir('/tmp/gone'); fs.rmdirSync('/tmp/gone');
  try { process.cwd(); } catch (error) { answer.gone = error.code; }
  return answer;
};
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_finds_its_paths_below_tmp() {
    let house = House::new().await;
    // Imported before the freeze, and only in the clone.
    for code in [format!("import sqlite3{PYTHON}"), PYTHON.to_owned()] {
        let prepared = house.prepare(handler("python:default", &code)).await;
        assert_eq!(prepared.fallback, None);
        let answer = house.answer_of(&prepared, "{}").await;
        let real = json!([
            "/tmp",
            "/tmp",
            "/tmp/a/b/file",
            "/tmp/a/b/file",
            "/tmp/a/none",
            "/tmp/a",
            "/function",
            "/none/x"
        ]);
        assert_eq!(answer["real"], real, "{answer}");
        assert_eq!((&answer["bytes"], &answer["resolved"]), (&json!("/tmp/a/b/file"), &json!("/tmp/a/b")));
        assert_eq!((&answer["began"], &answer["strict"]), (&json!("/function"), &json!(true)));
        assert_eq!(answer["root"], json!(["/tmp", "/tmp/x", "/tmp/a/b/file"]));
        assert_eq!(answer["below"], json!(["/tmp/a/b", "/tmp/a/b", "/tmp/a/b", true]));
        assert_eq!((&answer["made"], &answer["gone"]), (&json!(true), &json!(true)));
        assert_eq!(answer["database"], 7, "{answer}");
        assert_eq!(answer["beside it"], json!(["b", "kept.db", "kept.db-shm", "kept.db-wal"]));
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_finds_its_paths_below_tmp() {
    let house = House::new().await;
    let prepared = house.prepare(handler("nodejs:default", NODE)).await;
    assert_eq!(prepared.fallback, None);
    let answer = house.answer_of(&prepared, "{}").await;
    let file = "/tmp/a/b/file.js";
    assert_eq!(answer["real"], json!(["/tmp", "/tmp", file, file, "/function"]), "{answer}");
    for way in ["native", "called", "bytes", "module"] {
        assert_eq!(answer[way], file, "{way}: {answer}");
    }
    assert_eq!((&answer["promised"], &answer["began"]), (&json!("/tmp/a/b"), &json!("/function")));
    assert_eq!((&answer["none"], &answer["nobody"]), (&json!("ENOENT"), &json!("ENOENT")));
    assert_eq!(answer["root"], json!(["/tmp", "/tmp/x"]));
    assert_eq!((&answer["below"], &answer["gone"]), (&json!(["/tmp/a/b", true]), &json!("ENOENT")));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_loading_leaves_in_tmp_is_in_each_clones() {
    let house = House::new().await;
    let python = "
import os
open('/tmp/left', 'w').write('text')
os.mkdir('/tmp/closed')
open('/tmp/closed/inner', 'w').close()
os.chmod('/tmp/closed', 0o500)
def main(params):
    found = sorted(os.listdir('/tmp'))
    open('/tmp/of-a-call', 'w').close()
    return {'found': found, 'text': open('/tmp/left').read()}
";
    let node = "
const fs = require('fs');
fs.writeFileSync('/tmp/left', 'text');
fs.mkdirSync('/tmp/closed');
fs.writeFileSync('/tmp/closed/inner', '');
fs.chmodSync('/tmp/closed', 0o500);
exports.main = () => {
  const found = fs.readdirSync('/tmp');
  fs.writeFileSync('/tmp/of-a-call', '');
  return { found, text: fs.readFileSync('/tmp/left', 'utf8') };
};
";
    for (kind, code) in [("python:default", python), ("nodejs:default", node)] {
        let prepared = house.prepare(handler(kind, code)).await;
        assert_eq!(prepared.fallback, None);
        for _ in 0..2 {
            let answer = house.answer_of(&prepared, "{}").await;
            assert_eq!(answer, json!({ "found": ["closed", "left"], "text": "text" }), "{kind}");
        }
    }
    house.end().await;
}
