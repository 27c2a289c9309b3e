//! `inkstone txn`: several requests as one transaction, read from stdin.
//!
//! ```text
//!   mod("key1") > "0"              conditions, a line each, up to a blank line
//!
//!   put key1 "overwritten"         requests if all hold, up to a blank line
//!
//!   put key1 "created"             requests if not, up to a blank line
//!
//! ```

mod compare;
mod words;

use std::io::{self, BufRead, Write};

use clap::{Parser, Subcommand};
use etcd_api::etcdserverpb::request_op::Request as Requested;
use etcd_api::etcdserverpb::response_op::Response as Answered;
use etcd_api::etcdserverpb::{Compare, RequestOp, ResponseOp, TxnRequest, TxnResponse};
use serde_json::{Value, json};

use crate::client::{
    Connection, ConnectionArguments, Form, OutputArguments, Printer, header_json, without_empty,
};
use crate::del::{self, DeleteWords, delete_json};
use crate::failure::Failure;
use crate::get::{self, RangeWords, Shown, range_json};
use crate::put::{self, PutWords, put_json};

/// Carry out several requests at once, depending on conditions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads three parts from stdin, each of which a blank line ends: conditions, the requests if all
of them hold, and the requests if not. Conditions compare mod, create, ver, val or lease of a
key by =, !=, < or >. Requests are get, put and del, with their flags.

Example:
  inkstone txn <<'END'
  mod(\"key1\") > \"0\"

  put key1 \"overwritten\"

  put key1 \"created\"
  put key2 \"some extra key\"

  END")]
pub(crate) struct Arguments {
    /// Print a line before each part, for input by hand
    #[arg(short, long)]
    interactive: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// A line with a request.
#[derive(Debug, Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    disable_help_subcommand = true
)]
struct RequestLine {
    #[command(subcommand)]
    request: RequestWords,
}

#[derive(Debug, Subcommand)]
enum RequestWords {
    Put(PutWords),
    Get(RangeWords),
    Del(DeleteWords),
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let mut input = Input {
        lines: io::stdin().lock(),
        prompts: arguments.interactive,
    };
    let request = TxnRequest {
        compare: input.part("compares:", compare_of)?,
        success: input.part("success requests (get, put, del):", request_of)?,
        failure: input.part("failure requests (get, put, del):", request_of)?,
    };
    let connection = Connection::open(arguments.connection).await?;
    let send = async |request| connection.kv().txn(request).await;
    let answer = connection.call(request, send).await?;
    print(&mut printer, &answer)?;
    Ok(printer.flush()?)
}

/// The lines of stdin.
struct Input<R> {
    lines: R,
    prompts: bool,
}

impl<R: BufRead> Input<R> {
    /// Reads lines up to a blank one.
    fn part<T>(
        &mut self,
        prompt: &str,
        parse: impl Fn(&str) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        if self.prompts {
            let mut output = io::stdout();
            writeln!(output, "{prompt}")?;
            output.flush()?;
        }
        let mut items = Vec::new();
        loop {
            let line = self.line()?;
            match line.trim() {
                "" => return Ok(items),
                line => items.push(parse(line)?),
            }
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).map_err(|error| {
            let what = format_args!("cannot read the transaction from stdin: {error}");
            Failure::failed(what, "Write bytes that are no text as \"\\xff\".")
        })?;
        if read == 0 || !line.ends_with('\n') {
            return Err(Failure::wrong_use(
                "the transaction ended early",
                "Write three parts, and a blank line after each of them.",
            ));
        }
        Ok(line)
    }
}

fn compare_of(line: &str) -> Result<Compare, Failure> {
    compare::parse(line).map_err(|reason| {
        let what = format_args!("malformed comparison: {line} ({reason})");
        Failure::wrong_use(what, "Write one such as: mod(\"key1\") > \"0\"")
    })
}

fn request_of(line: &str) -> Result<RequestOp, Failure> {
    let invalid = |reason: &str| {
        let what = format_args!("invalid txn request: {line}");
        Failure::wrong_use(what, reason)
    };
    let words = words::split(line).map_err(invalid)?;
    let parsed = RequestLine::try_parse_from(words);
    let parsed = parsed.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        invalid(first.trim_start_matches("error: "))
    })?;
    let request = match parsed.request {
        RequestWords::Put(words) if words.lacks_value() => {
            return Err(invalid("A put in a transaction needs a value."));
        }
        RequestWords::Put(words) => Requested::RequestPut(words.request()?),
        RequestWords::Get(words) => Requested::RequestRange(words.request()?),
        RequestWords::Del(words) => Requested::RequestDeleteRange(words.request()?),
    };
    Ok(RequestOp {
        request: Some(request),
    })
}

fn print(printer: &mut Printer, answer: &TxnResponse) -> io::Result<()> {
    match printer.form() {
        Form::Json => return printer.line(txn_json(answer)),
        Form::Fields => {
            printer.header_fields(answer.header.as_ref())?;
            printer.field("Succeeded", answer.succeeded)?;
        }
        Form::Simple | Form::Table => {
            printer.line(if answer.succeeded {
                "SUCCESS"
            } else {
                "FAILURE"
            })?;
        }
    }
    for response in answer
        .responses
        .iter()
        .filter_map(|it| it.response.as_ref())
    {
        if printer.form() == Form::Simple {
            printer.line("")?;
        }
        print_one(printer, response)?;
    }
    Ok(())
}

fn print_one(printer: &mut Printer, response: &Answered) -> io::Result<()> {
    match response {
        Answered::ResponsePut(put) => put::print(printer, put),
        Answered::ResponseRange(range) => get::print(printer, range, Shown::default()),
        Answered::ResponseDeleteRange(deletion) => del::print(printer, deletion),
        Answered::ResponseTxn(inner) => print(printer, inner),
    }
}

fn txn_json(answer: &TxnResponse) -> Value {
    let responses: Vec<Value> = answer.responses.iter().map(response_json).collect();
    let mut object = json!({
        "header": header_json(answer.header.as_ref()),
        "succeeded": answer.succeeded,
        "responses": responses,
    });
    without_empty(&mut object);
    object
}

fn response_json(response: &ResponseOp) -> Value {
    let inner = match &response.response {
        Some(Answered::ResponsePut(put)) => json!({ "response_put": put_json(put) }),
        Some(Answered::ResponseRange(range)) => json!({ "response_range": range_json(range) }),
        Some(Answered::ResponseDeleteRange(it)) => {
            json!({ "response_delete_range": delete_json(it) })
        }
        Some(Answered::ResponseTxn(inner)) => json!({ "response_txn": txn_json(inner) }),
        None => json!({}),
    };
    json!({ "Response": inner })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Input<&[u8]> {
        Input {
            lines: text.as_bytes(),
            prompts: false,
        }
    }

    #[test]
    fn a_part_ends_at_a_blank_line_and_not_at_the_end_of_the_input() {
        let mut whole = input("put a 1\n  del b --prefix \n\nget c\n \n");
        assert_eq!(whole.part("", request_of).unwrap().len(), 2);
        assert_eq!(whole.part("", request_of).unwrap().len(), 1);
        assert!(whole.part("", request_of).is_err());
        assert!(input("put a 1\n").part("", request_of).is_err());
        assert!(input("put a 1").part("", request_of).is_err());
    }

    #[test]
    fn requests_have_the_flags_of_their_verbs() {
        let request = request_of(r#"get "a\x00" --limit 3"#).unwrap().request;
        let Some(Requested::RequestRange(range)) = request else {
            panic!("{request:?}");
        };
        assert_eq!((&range.key[..], range.limit), (&b"a\0"[..], 3));
        for wrong in [
            "put",
            "put k",
            "put k -",
            "foo x",
            "get k --nope",
            "put \"k",
            "get",
            "-h",
        ] {
            assert!(request_of(wrong).is_err(), "{wrong}");
        }
    }
}
