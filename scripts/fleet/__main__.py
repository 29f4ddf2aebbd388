#!/usr/bin/env python3
"""What is known of a directory of recorded profiles; scripts/record asks.

usage: python3 scripts/fleet COMMAND …

  agree DIR                     how well the repetitions agree, and what is decided
  table DIR DOCUMENT            writes the tables between the markers of DOCUMENT
  pending DIR --binary HASH …   what is still to be recorded, in order
  capacity DIR --binary HASH S  maximum sustainable rate of the service S, if known
  keep FROM TO [--slim]         moves a new profile to its place
  foreign DIR -- NAME…          names profiles that no recording makes
  --self-test                   checks this program on made profiles
"""

import argparse
import os
import sys

import agreement
import profiles
import selftest
import table


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/fleet", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--self-test", action="store_true", help="check this program on made profiles")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name, about):
        sub = commands.add_parser(name, help=about, description=about)
        if name != "keep":
            sub.add_argument("directory", metavar="DIR")
        return sub

    command("agree", "how well the repetitions agree, and what is decided")
    command("table", "write the tables of a document").add_argument("document", metavar="DOCUMENT")
    pending = command("pending", "what is still to be recorded, in order")
    pending.add_argument("--binary", required=True)
    pending.add_argument("--budget", required=True, type=profiles.seconds)
    pending.add_argument("--times", required=True, type=int)
    pending.add_argument("--again", action="store_true")
    pending.add_argument("names", nargs="+", metavar="NAME")
    capacity = command("capacity", "maximum sustainable rate of a service, if known")
    capacity.add_argument("--binary", required=True)
    capacity.add_argument("service", metavar="SERVICE")
    keep = command("keep", "move a new profile to its place")
    keep.add_argument("source", metavar="FROM")
    keep.add_argument("target", metavar="TO")
    keep.add_argument("--slim", action="store_true", help="on one line, without counters")
    command("foreign", "name profiles that no recording makes").add_argument("names", nargs="+", metavar="NAME")

    args = parser.parse_args()
    if args.self_test:
        return selftest.run()
    if not args.command:
        parser.error("give a command; see --help")
    if args.command == "keep":
        profiles.keep(args.source, args.target, args.slim)
        return 0
    if not os.path.isdir(args.directory):
        parser.error(f"{args.directory}: no such directory")
    if args.command == "pending":
        print(profiles.pending(args.directory, args.names, args.binary, args.budget, args.times, args.again))
    elif args.command == "capacity":
        found = profiles.capacity(args.directory, args.binary, args.service)
        print(found if found else "", end="")
    elif args.command == "foreign":
        for path in profiles.foreign(args.directory, args.names):
            print(f"record: {path}: no recording makes this; remove it if it is from an earlier version")
    elif args.command == "agree":
        print(agreement.report(profiles.rounds(args.directory)))
    else:
        table.write(args.document, profiles.rounds(args.directory))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (profiles.Unreadable, table.NoMarkers) as error:
        sys.exit(f"fleet: {error}")
    except BrokenPipeError:
        sys.exit(0)
