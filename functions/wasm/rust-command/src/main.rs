//! Any program that reads standard input and writes standard output is a function: this one counts.

use std::io::{self, Read};

fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    eprintln!("{} bytes came in", text.len());
    let (lines, words) = (text.lines().count(), text.split_whitespace().count());
    println!("{{\"lines\": {lines}, \"words\": {words}, \"bytes\": {}}}", text.len());
    Ok(())
}
