# bash completion for mlxctl. Made by .ci/completions.py: do not edit.
#
# Works from bash 3.2 on and needs no other package. Nothing is started at TAB: names come from globs.
# Shipped profiles are offered when nothing is typed yet, or when no profile of the project or the user begins with
# what is typed: `-P re` completes your own `review`, though a `reasoning` is shipped.

_mlxctl() {
    local answer candidate
    # A subshell, so that options of the user's shell can be changed. One candidate a line, quoted.
    answer=$(_mlxctl_answer)
    COMPREPLY=()
    while IFS= read -r candidate; do
        [[ -n $candidate ]] && COMPREPLY+=("$candidate")
    done <<<"$answer"
    return 0
}

_mlxctl_answer() {
    set +efu
    shopt -s nullglob
    shopt -u failglob dotglob nocaseglob nocasematch globskipdots 2>/dev/null
    unset GLOBIGNORE
    IFS=$' \t\n'
    local words current kept quote            # set by _mlxctl_split
    local place given value only_words        # set by _mlxctl_walk
    local prefix= typed= found= commands flags
    _mlxctl_split "${COMP_LINE:0:COMP_POINT}"
    typed=$current
    _mlxctl_walk "${words[@]:1}"
    _mlxctl_candidates
    return 0
}

# Read a line as the shell does: whole words, and the current one without its quotes. readline replaces only what
# stands after the last character of COMP_WORDBREAKS or the opening quote: the first $kept characters stay.
_mlxctl_split() {
    local rest=$1 char plain begun=
    words=() current= kept=0 quote=
    while [[ -n $rest ]]; do
        plain=${rest%%[![:alnum:]]*}
        if [[ -n $plain ]]; then
            current+=$plain rest=${rest:${#plain}} begun=1
            continue
        fi
        char=${rest:0:1} rest=${rest:1}
        case $quote$char in
        "''" | '""') quote= kept=${#current} ;;
        '\' | '"\') current+=${rest:0:1} rest=${rest:1} begun=1 ;;
        \'?* | \"?*) current+=$char ;;
        \' | \") quote=$char kept=${#current} begun=1 ;;
        [[:space:]])
            [[ -n $begun ]] && words+=("$current")
            current= kept=0 begun=
            ;;
        *)
            current+=$char begun=1
            [[ $COMP_WORDBREAKS == *"$char"* ]] && kept=${#current}
            ;;
        esac
    done
}

# Where the cursor is, after these words. place: the command; given: how many free words it has; value: what the last
# flag still waits for.
_mlxctl_walk() {
    local word
    place= given=0 value= only_words=
    for word; do
        if [[ -n $value && ($value != maybe* || " $value " == *" $word "*) ]]; then
            value=
        elif [[ -z $only_words && $word == -- ]]; then
            only_words=1 value=
        elif [[ -z $only_words && $word == -?* ]]; then
            _mlxctl_flag_value "$place" "$word"
        else
            value=
            _mlxctl_commands "$place"
            if [[ " $commands " == *" $word "* ]]; then
                place+=${place:+/}$word
            else
                given=$((given + 1))
            fi
        fi
    done
}

_mlxctl_candidates() {
    if [[ -n $value && $value != maybe* ]]; then
        _mlxctl_offer $value
    elif [[ -z $only_words && $typed == -* ]]; then
        _mlxctl_flags "$place"
        _mlxctl_add $flags
        _mlxctl_attached
    else
        _mlxctl_offer ${value#maybe }
        _mlxctl_commands "$place"
        _mlxctl_add $commands
        _mlxctl_free_word "$place" "$given"
        _mlxctl_offer $value
    fi
}

# The value in --flag=value and -Fvalue.
_mlxctl_attached() {
    case $typed in
    --*=*) prefix=${typed%%=*}= value=${typed%%=*} ;;
    -[!-]?*) prefix=${typed:0:2} value=$prefix ;;
    *) return ;;
    esac
    _mlxctl_flag_value "$place" "$value"
    typed=${typed:${#prefix}}
    _mlxctl_offer ${value#maybe }
}

# A kind of value, and words for it.
_mlxctl_offer() {
    local kind=${1:-nothing}
    [[ $# -gt 0 ]] && shift
    case $kind in
    nothing) ;;
    words) _mlxctl_add "$@" ;;
    *) "_mlxctl_$kind" ;;
    esac
}

# Offer those words that begin with what is typed.
_mlxctl_add() {
    local word
    for word; do
        if [[ $word == "$typed"* && $word != *[[:cntrl:]]* ]]; then
            found=1
            _mlxctl_insert "$prefix$word"
        fi
    done
}

# Print a word as it must stand on the line: a space after it, but not after a folder. Inside quotes a word that would
# need a backslash is left out.
_mlxctl_insert() {
    local text=${1:kept}
    case $quote in
    \') [[ $text != *\'* ]] && printf '%s\n' "$text" ;;
    \") [[ $text != *[\"\$\`\\!]* ]] && printf '%s\n' "$text" ;;
    *)
        case $text in
        "~/"?*) printf -v text '~/%q' "${text:2}" ;;
        ?*) printf -v text '%q' "$text" ;;
        esac
        [[ $1 == */ ]] || text+=' '
        printf '%s\n' "$text"
        ;;
    esac
}

# Kinds of value

_mlxctl_profiles() {
    local folders folder path
    if [[ $typed == */* || $typed == [.~]* ]]; then
        _mlxctl_files .toml
        return
    fi
    _mlxctl_profile_folders
    for folder in "${folders[@]}"; do
        for path in "$folder/$typed"*.toml; do
            path=${path##*/}
            [[ -f $folder/$path ]] && _mlxctl_add "${path%.toml}"
        done
    done
    if [[ -z $typed || -z $found ]]; then
        _mlxctl_add 'chat' 'code' 'creative' 'demo' 'deterministic' 'json' 'long-context' 'reasoning'
    fi
}

# Those of the project, not above its .git or the home folder, then the user's.
_mlxctl_profile_folders() {
    builtin cd -P . 2>/dev/null
    local folder=$PWD
    folders=()
    while true; do
        folders+=("$folder/.mlxctl" "$folder/profiles")
        [[ -z $folder || -e $folder/.git || $folder -ef $HOME ]] && break
        folder=${folder%/*}
    done
    folders+=("${XDG_CONFIG_HOME:-$HOME/.config}/mlxctl/profiles")
}

_mlxctl_profile_files() {
    _mlxctl_profiles
    _mlxctl_files .toml
}

_mlxctl_models() {
    local hub=${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub path
    hub=${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-$hub}}
    [[ $hub == "~/"* ]] && hub=$HOME/${hub:2}
    for path in "$hub"/models--*/snapshots/*/config.json; do
        path=${path#"$hub"/models--}
        path=${path%%/*}
        case $path in
        *--*) _mlxctl_add "${path%%--*}/${path#*--}" ;;
        *) _mlxctl_add "$path" ;;
        esac
    done
    _mlxctl_add builtin:smollm2-135m
    _mlxctl_folders
}

# Caches with a name, and files.
_mlxctl_caches() {
    local folder=${XDG_CACHE_HOME:-$HOME/.cache}/mlxctl/prompts path
    for path in "$folder/$typed"*.safetensors; do
        path=${path##*/}
        [[ -f $folder/$path ]] && _mlxctl_add "${path%.safetensors}"
    done
    _mlxctl_files .safetensors
}

# Conversations: their files are called by their names, percent-encoded; of long names only a part.
_mlxctl_sessions() {
    local folder=${XDG_DATA_HOME:-$HOME/.local/share}/mlxctl/sessions path name
    for path in "$folder"/*.json; do
        path=${path##*/} path=${path%.json}
        printf -v name %b "${path//%/\\x}"
        [[ ${#path} -le 150 ]] && _mlxctl_add "$name"
    done
}

_mlxctl_keys() { _mlxctl_add path revision adapter_path trust_remote_code extra_eos_token quantize_activations draft_model num_draft_tokens dtype system system_file prefill_response template files ignore_chat_template use_default_chat_template temp top_p min_p min_tokens_to_keep top_k xtc_probability xtc_threshold seed repetition_penalty repetition_context_size presence_penalty presence_context_size frequency_penalty frequency_context_size logit_bias ban max_tokens stop json_schema regex grammar prefill_step_size max_kv_size kv_bits kv_group_size quantized_kv_start name auto max_bytes on_full markdown format stats thinking log_text model.path model.revision model.adapter_path model.trust_remote_code model.extra_eos_token model.quantize_activations model.draft_model model.num_draft_tokens model.dtype prompt.system prompt.system_file prompt.prefill_response prompt.template prompt.files prompt.ignore_chat_template prompt.use_default_chat_template sampler.temp sampler.top_p sampler.min_p sampler.min_tokens_to_keep sampler.top_k sampler.xtc_probability sampler.xtc_threshold sampler.seed logits.repetition_penalty logits.repetition_context_size logits.presence_penalty logits.presence_context_size logits.frequency_penalty logits.frequency_context_size logits.logit_bias logits.ban generation.max_tokens generation.stop generation.json_schema generation.regex generation.grammar generation.prefill_step_size kv.max_kv_size kv.kv_bits kv.kv_group_size kv.quantized_kv_start cache.name cache.auto cache.max_bytes chat.on_full chat.markdown output.format output.stats output.thinking output.log_text; }

_mlxctl_paths() { _mlxctl_files ''; }

_mlxctl_folders() { _mlxctl_files /; }

# Folders, and the files whose name ends so.
_mlxctl_files() {
    local base=$typed path
    [[ $typed == "~/"* ]] && base=$HOME/${typed:2}
    for path in "$base"*; do
        if [[ -d $path ]]; then
            path+=/
        elif [[ $path != *"$1" ]]; then
            continue
        fi
        _mlxctl_add "$typed${path:${#base}}"
    done
}

# The commands, made from the program

_mlxctl_commands() {
    commands=
    case "$1" in
    '')
        commands='run generate chat cache stats bench inspect-template doctor profile completion'
        ;;
    cache)
        commands='save load list info verify explain rm prune'
        ;;
    stats)
        commands='show replay compare plot prune'
        ;;
    profile)
        commands='list show new edit validate path schema'
        ;;
    esac
}

_mlxctl_flags() {
    flags=
    case "$1" in
    '')
        flags='--version -h --help'
        ;;
    run)
        flags='-P --profile --unset --save-profile --model --revision --adapter-path --trust-remote-code
            --no-trust-remote-code --extra-eos-token -qa --quantize-activations --no-quantize-activations
            --draft-model --num-draft-tokens --dtype --system-prompt --system-file --prefill-response
            --prompt-template -f --file --ignore-chat-template --no-ignore-chat-template
            --use-default-chat-template --no-use-default-chat-template --temp --top-p --min-p
            --min-tokens-to-keep --top-k --xtc-probability --xtc-threshold --seed --repetition-penalty
            --repetition-context-size --presence-penalty --presence-context-size --frequency-penalty
            --frequency-context-size --logit-bias --ban -m --max-tokens --stop --json-schema --regex --grammar
            --prefill-step-size --max-kv-size --kv-bits --kv-group-size --quantized-kv-start --cache
            --auto-cache --no-auto-cache --cache-max-bytes --format --stats --no-stats --thinking --log-text
            --no-log-text -p --prompt --messages --param --recursive --truncate --image --prompt-cache-file
            --cache-update --chat-template-config --think --no-think --escapes --allow-special --verbose
            --dry-run --offline --no-offline --batch --batch-size --as-completed --resume --output --tee -x
            --extract --extract-last --top-logprobs --fail-on-length --no-fail-on-length --stats-file --no-log
            --log -h --help'
        ;;
    generate)
        flags='-h --help --model --adapter-path --trust-remote-code --extra-eos-token --quantize-activations -qa
            --draft-model --num-draft-tokens --system-prompt --prefill-response --ignore-chat-template
            --use-default-chat-template --temp --top-p --min-p --min-tokens-to-keep --top-k --xtc-probability
            --xtc-threshold --seed --max-tokens -m --prefill-step-size --max-kv-size --kv-bits --kv-group-size
            --quantized-kv-start --prompt -p --image --prompt-cache-file --chat-template-config --verbose -P
            --profile'
        ;;
    chat)
        flags='-P --profile --unset --session -c --continue --no-save --pipeline --model --revision
            --adapter-path --trust-remote-code --no-trust-remote-code --extra-eos-token -qa
            --quantize-activations --no-quantize-activations --draft-model --num-draft-tokens --dtype
            --system-prompt --system-file --prefill-response -f --file --ignore-chat-template
            --no-ignore-chat-template --use-default-chat-template --no-use-default-chat-template --temp --top-p
            --min-p --min-tokens-to-keep --top-k --xtc-probability --xtc-threshold --seed --repetition-penalty
            --repetition-context-size --presence-penalty --presence-context-size --frequency-penalty
            --frequency-context-size --logit-bias --ban -m --max-tokens --stop --json-schema --regex --grammar
            --prefill-step-size --max-kv-size --kv-bits --kv-group-size --quantized-kv-start --on-full
            --markdown --no-markdown --stats --no-stats --thinking --log-text --no-log-text --image
            --chat-template-config --think --no-think --allow-special --offline --no-offline --stats-file
            --no-log --log -h --help'
        ;;
    cache)
        flags='-h --help'
        ;;
    cache/save)
        flags='-P --profile --unset --model --revision --adapter-path --trust-remote-code --no-trust-remote-code
            --extra-eos-token -qa --quantize-activations --no-quantize-activations --draft-model
            --num-draft-tokens --dtype --system-prompt --system-file -f --file --ignore-chat-template
            --no-ignore-chat-template --use-default-chat-template --no-use-default-chat-template
            --prefill-step-size --max-kv-size --kv-bits --kv-group-size --quantized-kv-start --log-text
            --no-log-text -p --prompt --messages --recursive --chat-template-config --think --no-think --escapes
            --allow-special --offline --no-offline --no-log --log -h --help'
        ;;
    cache/load)
        flags='-P --profile --unset --model --revision --adapter-path --trust-remote-code --no-trust-remote-code
            --extra-eos-token -qa --quantize-activations --no-quantize-activations --draft-model
            --num-draft-tokens --dtype --system-prompt --system-file --prefill-response --prompt-template -f
            --file --ignore-chat-template --no-ignore-chat-template --use-default-chat-template
            --no-use-default-chat-template --temp --top-p --min-p --min-tokens-to-keep --top-k --xtc-probability
            --xtc-threshold --seed --repetition-penalty --repetition-context-size --presence-penalty
            --presence-context-size --frequency-penalty --frequency-context-size --logit-bias --ban -m
            --max-tokens --stop --json-schema --regex --grammar --prefill-step-size --max-kv-size --kv-bits
            --kv-group-size --quantized-kv-start --auto-cache --no-auto-cache --cache-max-bytes --format --stats
            --no-stats --thinking --log-text --no-log-text -p --prompt --messages --param --recursive --image
            --cache-update --chat-template-config --think --no-think --escapes --allow-special --verbose
            --dry-run --offline --no-offline --batch --batch-size --as-completed --resume --output --tee -x
            --extract --extract-last --top-logprobs --fail-on-length --no-fail-on-length --stats-file --no-log
            --log -h --help'
        ;;
    cache/list)
        flags='-P --profile --format -h --help'
        ;;
    cache/info)
        flags='--text --format -h --help'
        ;;
    cache/verify)
        flags='--deep -h --help'
        ;;
    cache/explain)
        flags='-P --profile --unset --model --revision --adapter-path --trust-remote-code --no-trust-remote-code
            --extra-eos-token -qa --quantize-activations --no-quantize-activations --draft-model
            --num-draft-tokens --dtype --system-prompt --system-file --prefill-response --prompt-template -f
            --file --ignore-chat-template --no-ignore-chat-template --use-default-chat-template
            --no-use-default-chat-template --max-kv-size --kv-bits --kv-group-size --quantized-kv-start -p
            --prompt --messages --chat-template-config --think --no-think --escapes --allow-special --offline
            --no-offline -h --help'
        ;;
    cache/rm)
        flags='-h --help'
        ;;
    cache/prune)
        flags='--max-bytes --older-than -h --help'
        ;;
    stats)
        flags='--model --profile --since --last --runs --format --explain -h --help'
        ;;
    stats/show)
        flags='--format --all -h --help'
        ;;
    stats/replay)
        flags='--format --system-prompt --prefill-response --prompt-template --logit-bias --ban --stop
            --json-schema --regex -p --prompt --messages --param --chat-template-config --offline --no-offline
            -h --help'
        ;;
    stats/compare)
        flags='--format -h --help'
        ;;
    stats/plot)
        flags='--model --profile --since --last -o --output -h --help'
        ;;
    stats/prune)
        flags='--older-than --keep -h --help'
        ;;
    bench)
        flags='-P --profile --unset -p --n-prompt -n --n-gen -d --n-depth -b --batch-size --kv-bits -r
            --repetitions --delay --warmup --no-warmup --exercise -o --output --compare --explain --model
            --revision --adapter-path --trust-remote-code --no-trust-remote-code -qa --quantize-activations
            --no-quantize-activations --dtype --prefill-step-size --max-kv-size --kv-group-size
            --quantized-kv-start --offline --no-offline --no-log --log -h --help'
        ;;
    inspect-template)
        flags='--tokens --raw --diff --arguments --lint --strict --turns --format -P --profile --unset --model
            --revision --trust-remote-code --no-trust-remote-code --extra-eos-token --system-prompt
            --system-file --prefill-response --prompt-template -f --file --ignore-chat-template
            --no-ignore-chat-template --use-default-chat-template --no-use-default-chat-template -p --prompt
            --messages --param --recursive --chat-template-config --think --no-think --escapes --allow-special
            --offline --no-offline -h --help'
        ;;
    doctor)
        flags='--format -P --profile --unset --model --revision --extra-eos-token -h --help'
        ;;
    profile)
        flags='-h --help'
        ;;
    profile/list)
        flags='--format -h --help'
        ;;
    profile/show)
        flags='--origin --format -P --profile --unset --model --revision --adapter-path --trust-remote-code
            --no-trust-remote-code --extra-eos-token -qa --quantize-activations --no-quantize-activations
            --draft-model --num-draft-tokens --dtype --system-prompt --system-file --prefill-response
            --prompt-template -f --file --ignore-chat-template --no-ignore-chat-template
            --use-default-chat-template --no-use-default-chat-template --temp --top-p --min-p
            --min-tokens-to-keep --top-k --xtc-probability --xtc-threshold --seed --repetition-penalty
            --repetition-context-size --presence-penalty --presence-context-size --frequency-penalty
            --frequency-context-size --logit-bias --ban -m --max-tokens --stop --json-schema --regex --grammar
            --prefill-step-size --max-kv-size --kv-bits --kv-group-size --quantized-kv-start --cache
            --auto-cache --no-auto-cache --cache-max-bytes --on-full --markdown --no-markdown --stats --no-stats
            --thinking --log-text --no-log-text -h --help'
        ;;
    profile/new)
        flags='--from --description --user -h --help'
        ;;
    profile/edit)
        flags='-h --help'
        ;;
    profile/validate)
        flags='-h --help'
        ;;
    profile/path)
        flags='-h --help'
        ;;
    profile/schema)
        flags='-h --help'
        ;;
    completion)
        flags='-h --help'
        ;;
    esac
}

_mlxctl_flag_value() {
    value=
    case "$1/$2" in
    run/-P | run/--profile)
        value='profiles'
        ;;
    run/--unset)
        value='keys'
        ;;
    run/--save-profile | run/--revision | run/--extra-eos-token | run/--num-draft-tokens | run/--system-prompt | \
        run/--prefill-response | run/--prompt-template | run/--temp | run/--top-p | run/--min-p | \
        run/--min-tokens-to-keep | run/--top-k | run/--xtc-probability | run/--xtc-threshold | run/--seed | \
        run/--repetition-penalty | run/--repetition-context-size | run/--presence-penalty | \
        run/--presence-context-size | run/--frequency-penalty | run/--frequency-context-size | run/--logit-bias \
        | run/--ban | run/-m | run/--max-tokens | run/--stop | run/--regex | run/--prefill-step-size | \
        run/--max-kv-size | run/--quantized-kv-start | run/--cache-max-bytes | run/-p | run/--prompt | \
        run/--param | run/--chat-template-config | run/--batch-size | run/--top-logprobs)
        value='nothing'
        ;;
    run/--model | run/--draft-model)
        value='models'
        ;;
    run/--adapter-path)
        value='folders'
        ;;
    run/--dtype)
        value='words auto native float32 float16 bfloat16'
        ;;
    run/--system-file | run/-f | run/--file | run/--json-schema | run/--grammar | run/--messages | run/--image | \
        run/--prompt-cache-file | run/--batch | run/--resume | run/--output | run/--tee | run/--stats-file)
        value='paths'
        ;;
    run/--kv-bits)
        value='words 2 3 4 5 6 8'
        ;;
    run/--kv-group-size)
        value='words 32 64 128'
        ;;
    run/--cache)
        value='caches'
        ;;
    run/--format)
        value='words text json jsonl classic'
        ;;
    run/--stats)
        value='maybe words auto always never json'
        ;;
    run/--thinking)
        value='words show hide stderr field'
        ;;
    run/--truncate)
        value='words head middle tail'
        ;;
    run/--verbose)
        value='words true false'
        ;;
    generate/--model | generate/--draft-model)
        value='models'
        ;;
    generate/--adapter-path)
        value='folders'
        ;;
    generate/--extra-eos-token | generate/--num-draft-tokens | generate/--system-prompt | \
        generate/--prefill-response | generate/--temp | generate/--top-p | generate/--min-p | \
        generate/--min-tokens-to-keep | generate/--top-k | generate/--xtc-probability | generate/--xtc-threshold \
        | generate/--seed | generate/--max-tokens | generate/-m | generate/--prefill-step-size | \
        generate/--max-kv-size | generate/--quantized-kv-start | generate/--prompt | generate/-p | \
        generate/--chat-template-config)
        value='nothing'
        ;;
    generate/--kv-bits)
        value='words 2 3 4 5 6 8'
        ;;
    generate/--kv-group-size)
        value='words 32 64 128'
        ;;
    generate/--image | generate/--prompt-cache-file)
        value='paths'
        ;;
    generate/--verbose)
        value='words true false'
        ;;
    generate/-P | generate/--profile)
        value='profiles'
        ;;
    chat/-P | chat/--profile)
        value='profiles'
        ;;
    chat/--unset)
        value='keys'
        ;;
    chat/--session)
        value='sessions'
        ;;
    chat/--model | chat/--draft-model)
        value='models'
        ;;
    chat/--revision | chat/--extra-eos-token | chat/--num-draft-tokens | chat/--system-prompt | \
        chat/--prefill-response | chat/--temp | chat/--top-p | chat/--min-p | chat/--min-tokens-to-keep | \
        chat/--top-k | chat/--xtc-probability | chat/--xtc-threshold | chat/--seed | chat/--repetition-penalty | \
        chat/--repetition-context-size | chat/--presence-penalty | chat/--presence-context-size | \
        chat/--frequency-penalty | chat/--frequency-context-size | chat/--logit-bias | chat/--ban | chat/-m | \
        chat/--max-tokens | chat/--stop | chat/--regex | chat/--prefill-step-size | chat/--max-kv-size | \
        chat/--quantized-kv-start | chat/--chat-template-config)
        value='nothing'
        ;;
    chat/--adapter-path)
        value='folders'
        ;;
    chat/--dtype)
        value='words auto native float32 float16 bfloat16'
        ;;
    chat/--system-file | chat/-f | chat/--file | chat/--json-schema | chat/--grammar | chat/--image | \
        chat/--stats-file)
        value='paths'
        ;;
    chat/--kv-bits)
        value='words 2 3 4 5 6 8'
        ;;
    chat/--kv-group-size)
        value='words 32 64 128'
        ;;
    chat/--on-full)
        value='words stop rotate drop-oldest'
        ;;
    chat/--stats)
        value='maybe words auto always never json'
        ;;
    chat/--thinking)
        value='words show hide stderr field'
        ;;
    cache/save/-P | cache/save/--profile)
        value='profiles'
        ;;
    cache/save/--unset)
        value='keys'
        ;;
    cache/save/--model | cache/save/--draft-model)
        value='models'
        ;;
    cache/save/--revision | cache/save/--extra-eos-token | cache/save/--num-draft-tokens | \
        cache/save/--system-prompt | cache/save/--prefill-step-size | cache/save/--max-kv-size | \
        cache/save/--quantized-kv-start | cache/save/-p | cache/save/--prompt | \
        cache/save/--chat-template-config)
        value='nothing'
        ;;
    cache/save/--adapter-path)
        value='folders'
        ;;
    cache/save/--dtype)
        value='words auto native float32 float16 bfloat16'
        ;;
    cache/save/--system-file | cache/save/-f | cache/save/--file | cache/save/--messages)
        value='paths'
        ;;
    cache/save/--kv-bits)
        value='words 2 3 4 5 6 8'
        ;;
    cache/save/--kv-group-size)
        value='words 32 64 128'
        ;;
    cache/load/-P | cache/load/--profile)
        value='profiles'
        ;;
    cache/load/--unset)
        value='keys'
        ;;
    cache/load/--model | cache/load/--draft-model)
        value='models'
        ;;
    cache/load/--revision | cache/load/--extra-eos-token | cache/load/--num-draft-tokens | \
        cache/load/--system-prompt | cache/load/--prefill-response | cache/load/--prompt-template | \
        cache/load/--temp | cache/load/--top-p | cache/load/--min-p | cache/load/--min-tokens-to-keep | \
        cache/load/--top-k | cache/load/--xtc-probability | cache/load/--xtc-threshold | cache/load/--seed | \
        cache/load/--repetition-penalty | cache/load/--repetition-context-size | cache/load/--presence-penalty | \
        cache/load/--presence-context-size | cache/load/--frequency-penalty | \
        cache/load/--frequency-context-size | cache/load/--logit-bias | cache/load/--ban | cache/load/-m | \
        cache/load/--max-tokens | cache/load/--stop | cache/load/--regex | cache/load/--prefill-step-size | \
        cache/load/--max-kv-size | cache/load/--quantized-kv-start | cache/load/--cache-max-bytes | \
        cache/load/-p | cache/load/--prompt | cache/load/--param | cache/load/--chat-template-config | \
        cache/load/--batch-size | cache/load/--top-logprobs)
        value='nothing'
        ;;
    cache/load/--adapter-path)
        value='folders'
        ;;
    cache/load/--dtype)
        value='words auto native float32 float16 bfloat16'
        ;;
    cache/load/--system-file | cache/load/-f | cache/load/--file | cache/load/--json-schema | \
        cache/load/--grammar | cache/load/--messages | cache/load/--image | cache/load/--batch | \
        cache/load/--resume | cache/load/--output | cache/load/--tee | cache/load/--stats-file)
        value='paths'
        ;;
    cache/load/--kv-bits)
        value='words 2 3 4 5 6 8'
        ;;
    cache/load/--kv-group-size)
        value='words 32 64 128'
        ;;
    cache/load/--format)
        value='words text json jsonl classic'
        ;;
    cache/load/--stats)
        value='maybe words auto always never json'
        ;;
    cache/load/--thinking)
        value='words show hide stderr field'
        ;;
    cache/load/--verbose)
        value='words true false'
        ;;
    cache/list/-P | cache/list/--profile)
        value='profiles'
        ;;
    cache/list/--format)
        value='words text json'
        ;;
    cache/info/--format)
        value='words text json'
        ;;
    cache/explain/-P | cache/explain/--profile)
        value='profiles'
        ;;
    cache/explain/--unset)
        value='keys'
        ;;
    cache/explain/--model | cache/explain/--draft-model)
        value='models'
        ;;
    cache/explain/--revision | cache/explain/--extra-eos-token | cache/explain/--num-draft-tokens | \
        cache/explain/--system-prompt | cache/explain/--prefill-response | cache/explain/--prompt-template | \
        cache/explain/--max-kv-size | cache/explain/--quantized-kv-start | cache/explain/-p | \
        cache/explain/--prompt | cache/explain/--chat-template-config)
        value='nothing'
        ;;
    cache/explain/--adapter-path)
        value='folders'
        ;;
    cache/explain/--dtype)
        value='words auto native float32 float16 bfloat16'
        ;;
    cache/explain/--system-file | cache/explain/-f | cache/explain/--file | cache/explain/--messages)
        value='paths'
        ;;
    cache/explain/--kv-bits)
        value='words 2 3 4 5 6 8'
        ;;
    cache/explain/--kv-group-size)
        value='words 32 64 128'
        ;;
    cache/prune/--max-bytes | cache/prune/--older-than)
        value='nothing'
        ;;
    stats/--model | stats/--since | stats/--last)
        value='nothing'
        ;;
    stats/--profile)
        value='profiles'
        ;;
    stats/--format)
        value='words table json jsonl csv markdown'
        ;;
    stats/show/--format)
        value='words text json'
        ;;
    stats/replay/--format)
        value='words text json'
        ;;
    stats/replay/--system-prompt | stats/replay/--prefill-response | stats/replay/--prompt-template | \
        stats/replay/--logit-bias | stats/replay/--ban | stats/replay/--stop | stats/replay/--regex | \
        stats/replay/-p | stats/replay/--prompt | stats/replay/--param | stats/replay/--chat-template-config)
        value='nothing'
        ;;
    stats/replay/--json-schema | stats/replay/--messages)
        value='paths'
        ;;
    stats/compare/--format)
        value='words table json markdown'
        ;;
    stats/plot/--model | stats/plot/--since | stats/plot/--last)
        value='nothing'
        ;;
    stats/plot/--profile)
        value='profiles'
        ;;
    stats/plot/-o | stats/plot/--output)
        value='paths'
        ;;
    stats/prune/--older-than | stats/prune/--keep)
        value='nothing'
        ;;
    bench/-P | bench/--profile)
        value='profiles'
        ;;
    bench/--unset)
        value='keys'
        ;;
    bench/-p | bench/--n-prompt | bench/-n | bench/--n-gen | bench/-d | bench/--n-depth | bench/-b | \
        bench/--batch-size | bench/--kv-bits | bench/-r | bench/--repetitions | bench/--delay | bench/--revision \
        | bench/--prefill-step-size | bench/--max-kv-size | bench/--quantized-kv-start)
        value='nothing'
        ;;
    bench/-o | bench/--output)
        value='words md json jsonl csv'
        ;;
    bench/--compare)
        value='paths'
        ;;
    bench/--model)
        value='models'
        ;;
    bench/--adapter-path)
        value='folders'
        ;;
    bench/--dtype)
        value='words auto native float32 float16 bfloat16'
        ;;
    bench/--kv-group-size)
        value='words 32 64 128'
        ;;
    inspect-template/--diff | inspect-template/--turns | inspect-template/--revision | \
        inspect-template/--extra-eos-token | inspect-template/--system-prompt | \
        inspect-template/--prefill-response | inspect-template/--prompt-template | inspect-template/-p | \
        inspect-template/--prompt | inspect-template/--param | inspect-template/--chat-template-config)
        value='nothing'
        ;;
    inspect-template/--format)
        value='words text json'
        ;;
    inspect-template/-P | inspect-template/--profile)
        value='profiles'
        ;;
    inspect-template/--unset)
        value='keys'
        ;;
    inspect-template/--model)
        value='models'
        ;;
    inspect-template/--system-file | inspect-template/-f | inspect-template/--file | \
        inspect-template/--messages)
        value='paths'
        ;;
    doctor/--format)
        value='words text json'
        ;;
    doctor/-P | doctor/--profile)
        value='profiles'
        ;;
    doctor/--unset)
        value='keys'
        ;;
    doctor/--model)
        value='models'
        ;;
    doctor/--revision | doctor/--extra-eos-token)
        value='nothing'
        ;;
    profile/list/--format)
        value='words text json'
        ;;
    profile/show/--format)
        value='words toml json'
        ;;
    profile/show/-P | profile/show/--profile)
        value='profiles'
        ;;
    profile/show/--unset)
        value='keys'
        ;;
    profile/show/--model | profile/show/--draft-model)
        value='models'
        ;;
    profile/show/--revision | profile/show/--extra-eos-token | profile/show/--num-draft-tokens | \
        profile/show/--system-prompt | profile/show/--prefill-response | profile/show/--prompt-template | \
        profile/show/--temp | profile/show/--top-p | profile/show/--min-p | profile/show/--min-tokens-to-keep | \
        profile/show/--top-k | profile/show/--xtc-probability | profile/show/--xtc-threshold | \
        profile/show/--seed | profile/show/--repetition-penalty | profile/show/--repetition-context-size | \
        profile/show/--presence-penalty | profile/show/--presence-context-size | \
        profile/show/--frequency-penalty | profile/show/--frequency-context-size | profile/show/--logit-bias | \
        profile/show/--ban | profile/show/-m | profile/show/--max-tokens | profile/show/--stop | \
        profile/show/--regex | profile/show/--prefill-step-size | profile/show/--max-kv-size | \
        profile/show/--quantized-kv-start | profile/show/--cache-max-bytes)
        value='nothing'
        ;;
    profile/show/--adapter-path)
        value='folders'
        ;;
    profile/show/--dtype)
        value='words auto native float32 float16 bfloat16'
        ;;
    profile/show/--system-file | profile/show/-f | profile/show/--file | profile/show/--json-schema | \
        profile/show/--grammar)
        value='paths'
        ;;
    profile/show/--kv-bits)
        value='words 2 3 4 5 6 8'
        ;;
    profile/show/--kv-group-size)
        value='words 32 64 128'
        ;;
    profile/show/--cache)
        value='caches'
        ;;
    profile/show/--on-full)
        value='words stop rotate drop-oldest'
        ;;
    profile/show/--stats)
        value='maybe words auto always never json'
        ;;
    profile/show/--thinking)
        value='words show hide stderr field'
        ;;
    profile/new/--from | profile/new/--description)
        value='nothing'
        ;;
    esac
}

_mlxctl_free_word() {
    value=
    case "$1/$2" in
    cache/save/0)
        value='caches'
        ;;
    cache/load/0)
        value='caches'
        ;;
    cache/info/0)
        value='caches'
        ;;
    cache/verify/*)
        value='caches'
        ;;
    cache/explain/0)
        value='caches'
        ;;
    cache/rm/*)
        value='caches'
        ;;
    profile/show/0)
        value='profiles'
        ;;
    profile/edit/0)
        value='profiles'
        ;;
    profile/validate/*)
        value='profile_files'
        ;;
    profile/path/0)
        value='profiles'
        ;;
    completion/0)
        value='words bash zsh fish'
        ;;
    esac
}

complete -o nospace -F _mlxctl mlxctl
