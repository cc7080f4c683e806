# What the checks of the package share; runs inside of the userland.

say() { printf '\n-- %s\n' "$*"; }

# within SECONDS COMMAND...: waits until it succeeds.
within() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        if ((SECONDS > until)); then
            echo "waited in vain for: $*" >&2
            return 1
        fi
        sleep 0.2
    done
}

# all_ready HOME: four replicas are ready, as they tell a client.
all_ready() {
    local said
    said="$(quorate -o json status --home "$1" 2>/dev/null)" || return 1
    (($(grep -oE '"ready": ?true' <<<"$said" | wc -l) == 4))
}

# redis PORT WORD...: a command of a Redis client; prints the answer's first line.
redis() {
    local port="$1" answer
    shift
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    {
        printf '*%d\r\n' $#
        local word
        for word in "$@"; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done
    } >&3
    read -r -t 20 answer <&3
    [[ $answer != '$'* ]] || read -r -t 20 answer <&3
    exec 3>&-
    echo "${answer%$'\r'}"
}

expect() {
    [[ $2 == "$3" ]] || { echo "$1: \"$2\", expected \"$3\"" >&2; return 1; }
    echo "$1: $2"
}

# Every file there is, but for what the kernel shows, the package manager's own notes, and the copies
# of /etc/shadow from before the user came.
files() {
    find / \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /check \
        -o -path '/etc/*shadow-' -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log \) -prune -o -print | sort
}
