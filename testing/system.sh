#!/bin/sh
# Makes sure that these programs are there: installs Debian's packages of the same names where it may (`mvn:maven`: the
# package has another name), else says in one sentence what is missing. Nothing is skipped for want of a program.
PATH="$PATH:/usr/sbin:/sbin"
missing=""
for program in "$@"; do
    case "$program" in
        /*) [ -e "${program%%:*}" ] || missing="$missing ${program#*:}" ;;
        *) command -v "${program%%:*}" >/dev/null 2>&1 || missing="$missing ${program#*:}" ;;
    esac
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    # shellcheck disable=SC2086  # a list of words
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null && exit 0
fi
echo "Missing:$missing. Install the packages of these names and run it again."
exit 1
