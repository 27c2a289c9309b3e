//! `inkstone member`: the members of the cluster.

use std::io;

use clap::Subcommand;
use etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberRemoveRequest, MemberUpdateRequest, ResponseHeader,
};
use serde_json::{Value, json};

use crate::client::{
    Connection, ConnectionArguments, Form, OutputArguments, Printer, member_header_json, quoted,
    without_empty,
};
use crate::failure::Failure;
use crate::get::Consistency;
use crate::table::Table;

/// List, add, update, promote and remove the members of the cluster
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Members are named by their ids, hexadecimal numbers, which `inkstone member list` prints.

Examples:
  inkstone member list -w table
  inkstone member add d --peer-urls http://10.0.0.4:2380 --learner
  inkstone member promote 8e9e05c52164694d
  inkstone member update 8e9e05c52164694d --peer-urls http://10.0.0.5:2380
  inkstone member remove 8e9e05c52164694d"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: MemberAction,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum MemberAction {
    /// Print the members: id, status, name, peer URLs, client URLs, whether it is a learner
    List {
        /// l asks a majority (linearizable), s the member itself (serializable)
        #[arg(long, value_enum, default_value_t = Consistency::L, value_name = "l|s")]
        consistency: Consistency,
    },
    /// Add a member, and print the variables with which it is to be started
    Add {
        /// The name of the new member
        #[arg(value_name = "NAME")]
        name: String,
        /// The peer URLs of the new member, separated by commas
        #[arg(long, value_name = "URLS", required = true, value_delimiter = ',')]
        peer_urls: Vec<String>,
        /// Add it as a learner, which does not vote until it is promoted
        #[arg(long)]
        learner: bool,
    },
    /// Remove a member
    Remove {
        /// The member's id, a hexadecimal number
        #[arg(value_name = "MEMBER", value_parser = member_id)]
        id: u64,
    },
    /// Change the peer URLs of a member
    Update {
        /// The member's id, a hexadecimal number
        #[arg(value_name = "MEMBER", value_parser = member_id)]
        id: u64,
        /// The new peer URLs, separated by commas
        #[arg(long, value_name = "URLS", required = true, value_delimiter = ',')]
        peer_urls: Vec<String>,
    },
    /// Let a learner vote
    Promote {
        /// The member's id, a hexadecimal number
        #[arg(value_name = "MEMBER", value_parser = member_id)]
        id: u64,
    },
}

/// Reads the id of a member.
pub(crate) fn member_id(word: &str) -> Result<u64, String> {
    u64::from_str_radix(word, 16)
        .map_err(|_| "a member's id is a hexadecimal number such as 8e9e05c52164694d".to_owned())
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let MemberAction::List { consistency } = arguments.action else {
        return change(arguments).await;
    };
    let mut printer = Printer::with_tables(arguments.output);
    let connection = Connection::open(arguments.connection).await?;
    let linearizable = consistency == Consistency::L;
    let send = async |request| connection.cluster().member_list(request).await;
    let answer = connection
        .call(MemberListRequest { linearizable }, send)
        .await?;
    print_list(&mut printer, &answer)?;
    Ok(printer.flush()?)
}

async fn change(arguments: Arguments) -> Result<(), Failure> {
    let mut printer = Printer::new(arguments.output)?;
    let connection = Connection::open(arguments.connection).await?;
    let (id, header, members, done) = match arguments.action {
        MemberAction::List { .. } => unreachable!("a list is no change"),
        MemberAction::Add {
            name,
            peer_urls,
            learner,
        } => {
            add(&name, peer_urls, learner, &connection, &mut printer).await?;
            return Ok(printer.flush()?);
        }
        MemberAction::Remove { id } => {
            let send = async |request| connection.cluster().member_remove(request).await;
            let answer = connection.call(MemberRemoveRequest { id }, send).await?;
            (id, answer.header, answer.members, "removed from")
        }
        MemberAction::Update { id, peer_urls } => {
            let send = async |request| connection.cluster().member_update(request).await;
            let peer_ur_ls = peer_urls;
            let message = MemberUpdateRequest { id, peer_ur_ls };
            let answer = connection.call(message, send).await?;
            (id, answer.header, answer.members, "updated in")
        }
        MemberAction::Promote { id } => {
            let send = async |request| connection.cluster().member_promote(request).await;
            let answer = connection.call(MemberPromoteRequest { id }, send).await?;
            (id, answer.header, answer.members, "promoted in")
        }
    };
    print_change(&mut printer, header.as_ref(), None, &members, |cluster| {
        format!("Member {id:16x} {done} cluster {cluster:16x}")
    })?;
    Ok(printer.flush()?)
}

async fn add(
    name: &str,
    peer_ur_ls: Vec<String>,
    is_learner: bool,
    connection: &Connection,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let send = async |request| connection.cluster().member_add(request).await;
    let urls = peer_ur_ls.join(",");
    let message = MemberAddRequest {
        peer_ur_ls,
        is_learner,
    };
    let answer = connection.call(message, send).await?;
    let added = answer.member.clone().unwrap_or_default();
    let role = if added.is_learner {
        " as learner "
    } else {
        " "
    };
    let text = |cluster| {
        format!(
            "Member {:16x} added{role}to cluster {cluster:16x}",
            added.id
        )
    };
    let member = Some(&added);
    print_change(
        printer,
        answer.header.as_ref(),
        member,
        &answer.members,
        text,
    )?;
    if printer.form() == Form::Simple {
        print_variables(printer, name, &urls, &answer)?;
    }
    Ok(())
}

/// Prints the variables of the new member's environment, in a form that a shell reads.
fn print_variables(
    printer: &mut Printer,
    name: &str,
    urls: &str,
    answer: &MemberAddResponse,
) -> io::Result<()> {
    let id = answer.member.as_ref().map(|member| member.id);
    let pairs = answer.members.iter().flat_map(|member| {
        let name = if Some(member.id) == id {
            name
        } else {
            &member.name
        };
        member
            .peer_ur_ls
            .iter()
            .map(move |url| format!("{name}={url}"))
    });
    let cluster = pairs.collect::<Vec<_>>().join(",");
    printer.line("")?;
    for (variable, value) in [
        ("ETCD_NAME", name),
        ("ETCD_INITIAL_CLUSTER", &cluster),
        ("ETCD_INITIAL_ADVERTISE_PEER_URLS", urls),
        ("ETCD_INITIAL_CLUSTER_STATE", "existing"),
    ] {
        printer.line(format_args!("{variable}={}", quoted(value.as_bytes())))?;
    }
    Ok(())
}

fn print_change(
    printer: &mut Printer,
    header: Option<&ResponseHeader>,
    member: Option<&Member>,
    members: &[Member],
    text: impl Fn(u64) -> String,
) -> io::Result<()> {
    let cluster = header.map_or(0, |header| header.cluster_id);
    match printer.form() {
        Form::Json => {
            let mut object = json!({ "header": member_header_json(printer, header) });
            if let Some(member) = member {
                object["member"] = member_json(printer, member);
            }
            object["members"] = members.iter().map(|it| member_json(printer, it)).collect();
            printer.line(object)
        }
        Form::Fields => printer.header_fields(header),
        Form::Simple | Form::Table => printer.line(text(cluster)),
    }
}

fn print_list(printer: &mut Printer, answer: &MemberListResponse) -> io::Result<()> {
    let mut rows = answer.members.iter().map(cells);
    match printer.form() {
        Form::Json => print_change(
            printer,
            answer.header.as_ref(),
            None,
            &answer.members,
            |_| String::new(),
        ),
        Form::Simple => rows.try_for_each(|row| printer.row(&row)),
        Form::Table => {
            let names = [
                "<ID",
                "<STATUS",
                "<NAME",
                "<PEER ADDRS",
                "<CLIENT ADDRS",
                "<IS LEARNER",
            ];
            let mut table = Table::new(names);
            rows.for_each(|row| table.row(row.into()));
            printer.table(&table)
        }
        Form::Fields => {
            printer.header_fields(answer.header.as_ref())?;
            let mut members = answer.members.iter();
            members.try_for_each(|member| print_fields(printer, member))
        }
    }
}

fn cells(member: &Member) -> [String; 6] {
    let started = !member.name.is_empty();
    [
        format!("{:x}", member.id),
        if started { "started" } else { "unstarted" }.to_owned(),
        member.name.clone(),
        member.peer_ur_ls.join(","),
        member.client_ur_ls.join(","),
        member.is_learner.to_string(),
    ]
}

fn print_fields(printer: &mut Printer, member: &Member) -> io::Result<()> {
    printer.id_field("ID", member.id)?;
    printer.text_field("Name", &member.name)?;
    for url in &member.peer_ur_ls {
        printer.text_field("PeerURL", url)?;
    }
    for url in &member.client_ur_ls {
        printer.text_field("ClientURL", url)?;
    }
    printer.field("IsLearner", member.is_learner)?;
    printer.line("")
}

fn member_json(printer: &Printer, member: &Member) -> Value {
    let mut object = json!({
        "ID": printer.id_json(member.id),
        "name": member.name,
        "peerURLs": member.peer_ur_ls,
        "clientURLs": member.client_ur_ls,
        "isLearner": member.is_learner,
    });
    without_empty(&mut object);
    object
}
