# fish completion for mlxctl. Made by .ci/completions.py: do not edit.
#
# Nothing is started at TAB: names come from globs.
# Shipped profiles are offered when nothing is typed yet, or when no profile of the project or the user begins with
# what is typed: `-P re` completes your own `review`, though a `reasoning` is shipped.

# Whether the cursor is in this command, and if a number is given: whether so many free words stand before it.
function __mlxctl_at
    set -l place
    set -l given 0
    set -l flag
    set -l only_words
    for word in (commandline -opc)[2..-1]
        if contains -- "$place $flag" $__mlxctl_with_value
            set flag
        else if test -z "$only_words"; and test "$word" = --
            set only_words 1
        else if test -z "$only_words"; and string match -q -- '-*' $word
            set flag $word
        else if contains -- (string trim -- "$place $word") $__mlxctl_commands
            set -a place $word
        else
            set given (math $given + 1)
        end
    end
    test "$place" = "$argv[1]"; or return
    set -q argv[2]; or return 0
    test $given = $argv[2]
end

# Whether the word before the cursor is one of these flags: its value may follow.
function __mlxctl_after
    contains -- (commandline -opc)[-1] $argv
end

# What is typed of a value: without its flag, raw.
function __mlxctl_token
    commandline -ct | string replace -r -- '^(--[^=]*=|-[A-Za-z])' ''
end

# Kinds of value

function __mlxctl_profiles
    set -l token (__mlxctl_token)
    if string match -qr -- '/|^[.~]' "$token"
        __mlxctl_toml_files
        return
    end
    set -l near (__mlxctl_near_profiles)
    set -l typed (string unescape -- "$token" 2>/dev/null; or string trim -l -c '"\'' -- "$token")
    set -l begins '^'(string escape --style=regex -- "$typed")'.*'
    set -l shipped (printf '%s\t%s\n' 'chat' 'Friendly, brief conversation' 'code' 'Writes and explains code' 'creative' 'Stories and ideas' 'demo' 'SmolLM2-135M-Instruct: small, quick, fetched once as a Python package' 'deterministic' 'The same answer every time' 'json' 'Answers with one JSON object, whose opening brace is given' 'long-context' 'Long documents in little memory: the cache in 8 bits from 2048 tokens on' 'reasoning' 'Thinks before it answers; the thoughts go to stderr')
    set -q near[1]
    and string match -r -- $begins $near
    and test -n "$typed"
    or string match -r -- $begins $shipped
end

# The profiles of the project, not above its .git or the home folder, then the user's.
function __mlxctl_near_profiles
    set -l folder (pwd -P)
    set -l home (builtin realpath -- "$HOME")
    set -l config $HOME/.config
    set -q XDG_CONFIG_HOME[1]; and test -n "$XDG_CONFIG_HOME"; and set config $XDG_CONFIG_HOME
    set -l folders
    while true
        set -a folders $folder/.mlxctl $folder/profiles
        test -z "$folder"; or test -e "$folder/.git"; or test "$folder" = "$home"; and break
        set folder (string replace -r '/[^/]*$' '' -- $folder)
    end
    for path in $folders/*.toml $config/mlxctl/profiles/*.toml
        string match -qr '[[:cntrl:]][^/]*$' -- $path; or not test -f $path; and continue
        string replace -r '^.*/(.*)\.toml$' '$1' -- $path
    end
end

function __mlxctl_profile_files
    __mlxctl_profiles
    string match -qr -- '/|^[.~]' (__mlxctl_token); or __mlxctl_toml_files
end

# An unknown command takes files: those that fit are kept.
function __mlxctl_toml_files
    complete -C "__mlxctl_no_such_command "(__mlxctl_token) | string match -r '.*(?:/|\.toml)$'
end

function __mlxctl_folders
    complete -C "__mlxctl_no_such_command "(__mlxctl_token) | string match -r '.*/$'
end

# models--org--my--model in the hub cache is org/my--model.
function __mlxctl_models
    for path in (__mlxctl_hub)/models--*/snapshots/*/config.json
        set path (string match -r '/models--([^/]*)/snapshots/[^/]*/config\.json$' -- $path)[2]
        string match -qr '[[:cntrl:]]' -- $path; or string replace -r -- -- / $path
    end
    printf '%s\n' builtin:smollm2-135m
    __mlxctl_folders
end

function __mlxctl_hub
    for name in HF_HUB_CACHE HUGGINGFACE_HUB_CACHE
        if set -q $name; and test -n "$$name"
            string replace -r '^~/' "$HOME/" -- $$name
            return
        end
    end
    set -l home $HOME/.cache/huggingface
    set -q XDG_CACHE_HOME; and test -n "$XDG_CACHE_HOME"; and set home $XDG_CACHE_HOME/huggingface
    set -q HF_HOME; and test -n "$HF_HOME"; and set home (string replace -r '^~/' "$HOME/" -- $HF_HOME)
    echo $home/hub
end

# Caches with a name, and files.
function __mlxctl_caches
    set -l home $HOME/.cache
    set -q XDG_CACHE_HOME; and test -n "$XDG_CACHE_HOME"; and set home $XDG_CACHE_HOME
    for path in $home/mlxctl/prompts/*.safetensors
        string match -r -- '[^/[:cntrl:]]*(?=\.safetensors$)' $path
    end
    complete -C "__mlxctl_no_such_command "(__mlxctl_token) | string match -r '.*(?:/|\.safetensors)$'
end

# Conversations: their files are called by their names, percent-encoded; of long names only a part.
function __mlxctl_sessions
    set -l home $HOME/.local/share
    set -q XDG_DATA_HOME; and test -n "$XDG_DATA_HOME"; and set home $XDG_DATA_HOME
    for path in $home/mlxctl/sessions/*.json
        string match -r -- '(?<=/)[^/]{1,150}(?=\.json$)' $path | string unescape --style=url
    end
end

function __mlxctl_keys
    string split ' ' 'path revision adapter_path trust_remote_code extra_eos_token quantize_activations draft_model num_draft_tokens dtype system system_file prefill_response template files ignore_chat_template use_default_chat_template temp top_p min_p min_tokens_to_keep top_k xtc_probability xtc_threshold seed repetition_penalty repetition_context_size presence_penalty presence_context_size frequency_penalty frequency_context_size logit_bias ban max_tokens stop json_schema regex grammar prefill_step_size max_kv_size kv_bits kv_group_size quantized_kv_start name auto max_bytes on_full markdown format stats thinking log_text model.path model.revision model.adapter_path model.trust_remote_code model.extra_eos_token model.quantize_activations model.draft_model model.num_draft_tokens model.dtype prompt.system prompt.system_file prompt.prefill_response prompt.template prompt.files prompt.ignore_chat_template prompt.use_default_chat_template sampler.temp sampler.top_p sampler.min_p sampler.min_tokens_to_keep sampler.top_k sampler.xtc_probability sampler.xtc_threshold sampler.seed logits.repetition_penalty logits.repetition_context_size logits.presence_penalty logits.presence_context_size logits.frequency_penalty logits.frequency_context_size logits.logit_bias logits.ban generation.max_tokens generation.stop generation.json_schema generation.regex generation.grammar generation.prefill_step_size kv.max_kv_size kv.kv_bits kv.kv_group_size kv.quantized_kv_start cache.name cache.auto cache.max_bytes chat.on_full chat.markdown output.format output.stats output.thinking output.log_text'
end

# The commands, made from the program

set -g __mlxctl_commands 'run' 'generate' 'chat' 'cache' 'stats' 'bench' 'inspect-template' 'doctor' 'profile' 'completion' 'cache save' 'cache load' 'cache list' 'cache info' 'cache verify' 'cache explain' 'cache rm' 'cache prune' 'stats show' 'stats replay' 'stats compare' 'stats plot' 'stats prune' 'profile list' 'profile show' 'profile new' 'profile edit' 'profile validate' 'profile path' 'profile schema'
set -g __mlxctl_with_value 'run -P' 'run --profile' 'run --unset' 'run --save-profile' 'run --model' 'run --revision' 'run --adapter-path' 'run --extra-eos-token' 'run --draft-model' 'run --num-draft-tokens' 'run --dtype' 'run --system-prompt' 'run --system-file' 'run --prefill-response' 'run --prompt-template' 'run -f' 'run --file' 'run --temp' 'run --top-p' 'run --min-p' 'run --min-tokens-to-keep' 'run --top-k' 'run --xtc-probability' 'run --xtc-threshold' 'run --seed' 'run --repetition-penalty' 'run --repetition-context-size' 'run --presence-penalty' 'run --presence-context-size' 'run --frequency-penalty' 'run --frequency-context-size' 'run --logit-bias' 'run --ban' 'run -m' 'run --max-tokens' 'run --stop' 'run --json-schema' 'run --regex' 'run --grammar' 'run --prefill-step-size' 'run --max-kv-size' 'run --kv-bits' 'run --kv-group-size' 'run --quantized-kv-start' 'run --cache' 'run --cache-max-bytes' 'run --format' 'run --thinking' 'run -p' 'run --prompt' 'run --messages' 'run --param' 'run --truncate' 'run --image' 'run --prompt-cache-file' 'run --chat-template-config' 'run --verbose' 'run --batch' 'run --batch-size' 'run --resume' 'run --output' 'run --tee' 'run --top-logprobs' 'run --stats-file' 'generate --model' 'generate --adapter-path' 'generate --extra-eos-token' 'generate --draft-model' 'generate --num-draft-tokens' 'generate --system-prompt' 'generate --prefill-response' 'generate --temp' 'generate --top-p' 'generate --min-p' 'generate --min-tokens-to-keep' 'generate --top-k' 'generate --xtc-probability' 'generate --xtc-threshold' 'generate --seed' 'generate --max-tokens' 'generate -m' 'generate --prefill-step-size' 'generate --max-kv-size' 'generate --kv-bits' 'generate --kv-group-size' 'generate --quantized-kv-start' 'generate --prompt' 'generate -p' 'generate --image' 'generate --prompt-cache-file' 'generate --chat-template-config' 'generate --verbose' 'generate -P' 'generate --profile' 'chat -P' 'chat --profile' 'chat --unset' 'chat --session' 'chat --model' 'chat --revision' 'chat --adapter-path' 'chat --extra-eos-token' 'chat --draft-model' 'chat --num-draft-tokens' 'chat --dtype' 'chat --system-prompt' 'chat --system-file' 'chat --prefill-response' 'chat -f' 'chat --file' 'chat --temp' 'chat --top-p' 'chat --min-p' 'chat --min-tokens-to-keep' 'chat --top-k' 'chat --xtc-probability' 'chat --xtc-threshold' 'chat --seed' 'chat --repetition-penalty' 'chat --repetition-context-size' 'chat --presence-penalty' 'chat --presence-context-size' 'chat --frequency-penalty' 'chat --frequency-context-size' 'chat --logit-bias' 'chat --ban' 'chat -m' 'chat --max-tokens' 'chat --stop' 'chat --json-schema' 'chat --regex' 'chat --grammar' 'chat --prefill-step-size' 'chat --max-kv-size' 'chat --kv-bits' 'chat --kv-group-size' 'chat --quantized-kv-start' 'chat --on-full' 'chat --thinking' 'chat --image' 'chat --chat-template-config' 'chat --stats-file' 'cache save -P' 'cache save --profile' 'cache save --unset' 'cache save --model' 'cache save --revision' 'cache save --adapter-path' 'cache save --extra-eos-token' 'cache save --draft-model' 'cache save --num-draft-tokens' 'cache save --dtype' 'cache save --system-prompt' 'cache save --system-file' 'cache save -f' 'cache save --file' 'cache save --prefill-step-size' 'cache save --max-kv-size' 'cache save --kv-bits' 'cache save --kv-group-size' 'cache save --quantized-kv-start' 'cache save -p' 'cache save --prompt' 'cache save --messages' 'cache save --chat-template-config' 'cache load -P' 'cache load --profile' 'cache load --unset' 'cache load --model' 'cache load --revision' 'cache load --adapter-path' 'cache load --extra-eos-token' 'cache load --draft-model' 'cache load --num-draft-tokens' 'cache load --dtype' 'cache load --system-prompt' 'cache load --system-file' 'cache load --prefill-response' 'cache load --prompt-template' 'cache load -f' 'cache load --file' 'cache load --temp' 'cache load --top-p' 'cache load --min-p' 'cache load --min-tokens-to-keep' 'cache load --top-k' 'cache load --xtc-probability' 'cache load --xtc-threshold' 'cache load --seed' 'cache load --repetition-penalty' 'cache load --repetition-context-size' 'cache load --presence-penalty' 'cache load --presence-context-size' 'cache load --frequency-penalty' 'cache load --frequency-context-size' 'cache load --logit-bias' 'cache load --ban' 'cache load -m' 'cache load --max-tokens' 'cache load --stop' 'cache load --json-schema' 'cache load --regex' 'cache load --grammar' 'cache load --prefill-step-size' 'cache load --max-kv-size' 'cache load --kv-bits' 'cache load --kv-group-size' 'cache load --quantized-kv-start' 'cache load --cache-max-bytes' 'cache load --format' 'cache load --thinking' 'cache load -p' 'cache load --prompt' 'cache load --messages' 'cache load --param' 'cache load --image' 'cache load --chat-template-config' 'cache load --verbose' 'cache load --batch' 'cache load --batch-size' 'cache load --resume' 'cache load --output' 'cache load --tee' 'cache load --top-logprobs' 'cache load --stats-file' 'cache list -P' 'cache list --profile' 'cache list --format' 'cache info --format' 'cache explain -P' 'cache explain --profile' 'cache explain --unset' 'cache explain --model' 'cache explain --revision' 'cache explain --adapter-path' 'cache explain --extra-eos-token' 'cache explain --draft-model' 'cache explain --num-draft-tokens' 'cache explain --dtype' 'cache explain --system-prompt' 'cache explain --system-file' 'cache explain --prefill-response' 'cache explain --prompt-template' 'cache explain -f' 'cache explain --file' 'cache explain --max-kv-size' 'cache explain --kv-bits' 'cache explain --kv-group-size' 'cache explain --quantized-kv-start' 'cache explain -p' 'cache explain --prompt' 'cache explain --messages' 'cache explain --chat-template-config' 'cache prune --max-bytes' 'cache prune --older-than' 'stats --model' 'stats --profile' 'stats --since' 'stats --last' 'stats --format' 'stats show --format' 'stats replay --format' 'stats replay --system-prompt' 'stats replay --prefill-response' 'stats replay --prompt-template' 'stats replay --logit-bias' 'stats replay --ban' 'stats replay --stop' 'stats replay --json-schema' 'stats replay --regex' 'stats replay -p' 'stats replay --prompt' 'stats replay --messages' 'stats replay --param' 'stats replay --chat-template-config' 'stats compare --format' 'stats plot --model' 'stats plot --profile' 'stats plot --since' 'stats plot --last' 'stats plot -o' 'stats plot --output' 'stats prune --older-than' 'stats prune --keep' 'bench -P' 'bench --profile' 'bench --unset' 'bench -p' 'bench --n-prompt' 'bench -n' 'bench --n-gen' 'bench -d' 'bench --n-depth' 'bench -b' 'bench --batch-size' 'bench --kv-bits' 'bench -r' 'bench --repetitions' 'bench --delay' 'bench -o' 'bench --output' 'bench --compare' 'bench --model' 'bench --revision' 'bench --adapter-path' 'bench --dtype' 'bench --prefill-step-size' 'bench --max-kv-size' 'bench --kv-group-size' 'bench --quantized-kv-start' 'inspect-template --diff' 'inspect-template --turns' 'inspect-template --format' 'inspect-template -P' 'inspect-template --profile' 'inspect-template --unset' 'inspect-template --model' 'inspect-template --revision' 'inspect-template --extra-eos-token' 'inspect-template --system-prompt' 'inspect-template --system-file' 'inspect-template --prefill-response' 'inspect-template --prompt-template' 'inspect-template -f' 'inspect-template --file' 'inspect-template -p' 'inspect-template --prompt' 'inspect-template --messages' 'inspect-template --param' 'inspect-template --chat-template-config' 'doctor --format' 'doctor -P' 'doctor --profile' 'doctor --unset' 'doctor --model' 'doctor --revision' 'doctor --extra-eos-token' 'profile list --format' 'profile show --format' 'profile show -P' 'profile show --profile' 'profile show --unset' 'profile show --model' 'profile show --revision' 'profile show --adapter-path' 'profile show --extra-eos-token' 'profile show --draft-model' 'profile show --num-draft-tokens' 'profile show --dtype' 'profile show --system-prompt' 'profile show --system-file' 'profile show --prefill-response' 'profile show --prompt-template' 'profile show -f' 'profile show --file' 'profile show --temp' 'profile show --top-p' 'profile show --min-p' 'profile show --min-tokens-to-keep' 'profile show --top-k' 'profile show --xtc-probability' 'profile show --xtc-threshold' 'profile show --seed' 'profile show --repetition-penalty' 'profile show --repetition-context-size' 'profile show --presence-penalty' 'profile show --presence-context-size' 'profile show --frequency-penalty' 'profile show --frequency-context-size' 'profile show --logit-bias' 'profile show --ban' 'profile show -m' 'profile show --max-tokens' 'profile show --stop' 'profile show --json-schema' 'profile show --regex' 'profile show --grammar' 'profile show --prefill-step-size' 'profile show --max-kv-size' 'profile show --kv-bits' 'profile show --kv-group-size' 'profile show --quantized-kv-start' 'profile show --cache' 'profile show --cache-max-bytes' 'profile show --on-full' 'profile show --thinking' 'profile new --from' 'profile new --description'

complete -c mlxctl -e
complete -c mlxctl -f

# mlxctl
complete -c mlxctl -n "__mlxctl_at '' 0" -a run -d 'Answer one prompt, streamed'
complete -c mlxctl -n "__mlxctl_at '' 0" -a generate -d 'Do what mlx_lm.generate does, flag for flag'
complete -c mlxctl -n "__mlxctl_at '' 0" -a chat -d 'Talk with a model'
complete -c mlxctl -n "__mlxctl_at '' 0" -a cache -d 'Prompts that are processed once and used many times'
complete -c mlxctl -n "__mlxctl_at '' 0" -a stats -d 'What past runs measured: tables, receipts, comparisons, charts'
complete -c mlxctl -n "__mlxctl_at '' 0" -a bench -d 'Measure a model over prompt length, generation length and depth'
complete -c mlxctl -n "__mlxctl_at '' 0" -a inspect-template -d 'What the model is handed, and what is wrong with it'
complete -c mlxctl -n "__mlxctl_at '' 0" -a doctor -d 'What may be wrong with this machine and what is set up on it'
complete -c mlxctl -n "__mlxctl_at '' 0" -a profile -d 'Named settings: list, show, write and check them'
complete -c mlxctl -n "__mlxctl_at '' 0" -a completion -d 'Print the script that completes command lines in bash, zsh or fish'
complete -c mlxctl -n "__mlxctl_at ''" -l version -d 'Show the version and exit'
complete -c mlxctl -n "__mlxctl_at ''" -s h -l help -d 'Show this message and exit'

# mlxctl run
complete -c mlxctl -n "__mlxctl_at 'run'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'run'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'run'" -l save-profile -r -f -d 'When the answer is there, keep the flags as a new profile'
complete -c mlxctl -n "__mlxctl_at 'run'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'run'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'run'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'run'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'run'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'run'" -o qa -l quantize-activations -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-quantize-activations -d 'Undo --quantize-activations'
complete -c mlxctl -n "__mlxctl_at 'run'" -l draft-model -r -f -a '(__mlxctl_models)' -d 'A smaller model with the same tokenizer, for speculative decoding'
complete -c mlxctl -n "__mlxctl_at 'run'" -l num-draft-tokens -r -f -d 'Tokens drafted at a time'
complete -c mlxctl -n "__mlxctl_at 'run'" -l dtype -r -f -a 'auto native float32 float16 bfloat16' -d 'Compute in this type; auto: float32 for half-precision models on a CPU, else as stored'
complete -c mlxctl -n "__mlxctl_at 'run'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'run'" -l system-file -r -F -d 'System prompt from a file'
complete -c mlxctl -n "__mlxctl_at 'run'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'run'" -l prompt-template -r -f -d 'Text with places for what is asked: {prompt}, {stdin}, {files}, {file:NAME}, and {NAME} for each --param'
complete -c mlxctl -n "__mlxctl_at 'run'" -s f -l file -r -F -d 'Text file that goes before the question'
complete -c mlxctl -n "__mlxctl_at 'run'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-ignore-chat-template -d 'Undo --ignore-chat-template'
complete -c mlxctl -n "__mlxctl_at 'run'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-use-default-chat-template -d 'Undo --use-default-chat-template'
complete -c mlxctl -n "__mlxctl_at 'run'" -l temp -r -f -d 'Temperature; 0 always takes the likeliest token'
complete -c mlxctl -n "__mlxctl_at 'run'" -l top-p -r -f -d 'Keep the likeliest tokens that hold this much probability; 1 keeps all'
complete -c mlxctl -n "__mlxctl_at 'run'" -l min-p -r -f -d 'Drop tokens less likely than this share of the likeliest'
complete -c mlxctl -n "__mlxctl_at 'run'" -l min-tokens-to-keep -r -f -d 'Tokens that min-p always keeps'
complete -c mlxctl -n "__mlxctl_at 'run'" -l top-k -r -f -d 'Keep this many of the likeliest tokens; 0 keeps all'
complete -c mlxctl -n "__mlxctl_at 'run'" -l xtc-probability -r -f -d 'How often XTC drops the likeliest tokens'
complete -c mlxctl -n "__mlxctl_at 'run'" -l xtc-threshold -r -f -d 'Probability above which XTC may drop a token'
complete -c mlxctl -n "__mlxctl_at 'run'" -l seed -r -f -d 'Seed of the random numbers (default: a new one, reported)'
complete -c mlxctl -n "__mlxctl_at 'run'" -l repetition-penalty -r -f -d 'Divide the logits of recent tokens; 1 does nothing'
complete -c mlxctl -n "__mlxctl_at 'run'" -l repetition-context-size -r -f -d 'Tokens the repetition penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'run'" -l presence-penalty -r -f -d 'Take this off the logit of a recent token'
complete -c mlxctl -n "__mlxctl_at 'run'" -l presence-context-size -r -f -d 'Tokens the presence penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'run'" -l frequency-penalty -r -f -d 'Take this off for each recent use of a token'
complete -c mlxctl -n "__mlxctl_at 'run'" -l frequency-context-size -r -f -d 'Tokens the frequency penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'run'" -l logit-bias -r -f -d 'Add BIAS to the logit of a token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'run'" -l ban -r -f -d 'Never produce this token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'run'" -s m -l max-tokens -r -f -d 'Most tokens to generate; -1: no limit (default: what is left of the model\'s context)'
complete -c mlxctl -n "__mlxctl_at 'run'" -l stop -r -f -d 'Text that ends the answer; it is not printed'
complete -c mlxctl -n "__mlxctl_at 'run'" -l json-schema -r -F -d 'Hold the answer to a JSON schema: a file, JSON, or fields as \'name, age int\''
complete -c mlxctl -n "__mlxctl_at 'run'" -l regex -r -f -d 'Hold the answer to a regular expression'
complete -c mlxctl -n "__mlxctl_at 'run'" -l grammar -r -F -d 'Hold the answer to a grammar in a file (Lark or GBNF)'
complete -c mlxctl -n "__mlxctl_at 'run'" -l prefill-step-size -r -f -d 'Prompt tokens processed at a time'
complete -c mlxctl -n "__mlxctl_at 'run'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'run'" -l kv-bits -r -f -a '2 3 4 5 6 8' -d 'Quantize the cache to this many bits'
complete -c mlxctl -n "__mlxctl_at 'run'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'run'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'run'" -l cache -r -f -a '(__mlxctl_caches)' -d 'Start from this prompt cache: a name, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'run'" -l auto-cache -d 'Keep prompts that were processed, and skip what the next one has in common with them'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-auto-cache -d 'Undo --auto-cache'
complete -c mlxctl -n "__mlxctl_at 'run'" -l cache-max-bytes -r -f -d 'Most bytes that --auto-cache keeps on disk; the least recently used go first'
complete -c mlxctl -n "__mlxctl_at 'run'" -l format -r -f -a 'text json jsonl classic' -d 'How the answer is written; classic is the layout of mlx_lm.generate'
complete -c mlxctl -n "__mlxctl_at 'run'" -l stats -f -a 'auto always never json' -d 'Timing on stderr: always, never, json (default: when it is a terminal)'
complete -c mlxctl -n "__mlxctl_at 'run'; and __mlxctl_after --stats" -f -a 'auto always never json'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-stats -d 'No timing on stderr'
complete -c mlxctl -n "__mlxctl_at 'run'" -l thinking -r -f -a 'show hide stderr field' -d 'Where the model\'s thinking goes in text output; field: into that of json alone'
complete -c mlxctl -n "__mlxctl_at 'run'" -l log-text -d 'Keep the words of prompt and answer in the history, too'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-log-text -d 'Undo --log-text'
complete -c mlxctl -n "__mlxctl_at 'run'" -s p -l prompt -r -f -d 'The question (\'-\' reads stdin)'
complete -c mlxctl -n "__mlxctl_at 'run'" -l messages -r -F -d 'JSON file with an OpenAI-style message list'
complete -c mlxctl -n "__mlxctl_at 'run'" -l param -r -f -d 'Fill {NAME} of the prompt template with TEXT'
complete -c mlxctl -n "__mlxctl_at 'run'" -l recursive -d 'With -f take folders, and patterns such as \'src/**/*.py\', too'
complete -c mlxctl -n "__mlxctl_at 'run'" -l truncate -r -f -a 'head middle tail' -d 'Leave out the beginning, the middle or the end of documents (-f, stdin) that the context has no room for, rather than refuse them'
complete -c mlxctl -n "__mlxctl_at 'run'" -l image -r -F -d 'Image for the next placeholder of the prompt'
complete -c mlxctl -n "__mlxctl_at 'run'" -l prompt-cache-file -r -F -d 'Start from a prompt cache, also one that mlx_lm.cache_prompt wrote'
complete -c mlxctl -n "__mlxctl_at 'run'" -l cache-update -d 'Write the question and the answer back to the prompt cache'
complete -c mlxctl -n "__mlxctl_at 'run'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'run'" -l think -d 'Ask the template for thinking, or for none'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-think -d 'Undo --think'
complete -c mlxctl -n "__mlxctl_at 'run'" -l escapes -d 'Read \\n and \\t in the question as newline and tab'
complete -c mlxctl -n "__mlxctl_at 'run'" -l allow-special -d 'Let text such as <|im_end|> become the special token'
complete -c mlxctl -n "__mlxctl_at 'run'" -l verbose -r -f -a 'true false' -d 'True: the layout of mlx_lm.generate; False: the answer alone'
complete -c mlxctl -n "__mlxctl_at 'run'" -l dry-run -d 'Show the settings and the rendered prompt; load no weights'
complete -c mlxctl -n "__mlxctl_at 'run'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'run'" -l batch -r -F -d 'Answer every line of this file (\'-\': stdin): a prompt, or a JSON object with prompt or messages, id and settings'
complete -c mlxctl -n "__mlxctl_at 'run'" -l batch-size -r -f -d 'Lines of a batch that are answered at once'
complete -c mlxctl -n "__mlxctl_at 'run'" -l as-completed -d 'Write the results of a batch as they are done, not in the order of its lines'
complete -c mlxctl -n "__mlxctl_at 'run'" -l resume -r -F -d 'Leave out the lines of a batch that are answered in this file of results'
complete -c mlxctl -n "__mlxctl_at 'run'" -l output -r -F -d 'Write the answer to this file instead of stdout, whole or not at all'
complete -c mlxctl -n "__mlxctl_at 'run'" -l tee -r -F -d 'Write what goes to stdout to this file, too'
complete -c mlxctl -n "__mlxctl_at 'run'" -s x -l extract -d 'Of a text answer, the first fenced block alone'
complete -c mlxctl -n "__mlxctl_at 'run'" -l extract-last -d 'Of a text answer, the last fenced block alone'
complete -c mlxctl -n "__mlxctl_at 'run'" -l top-logprobs -r -f -d 'With each token of jsonl, the likeliest N and their logprobs'
complete -c mlxctl -n "__mlxctl_at 'run'" -l fail-on-length -d 'Exit with 10 when the answer was cut by the token limit'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-fail-on-length -d 'Undo --fail-on-length'
complete -c mlxctl -n "__mlxctl_at 'run'" -l stats-file -r -F -d 'Append the run\'s figures to this file, a JSON line a run'
complete -c mlxctl -n "__mlxctl_at 'run'" -l no-log -d 'Leave no record of the run in the history'
complete -c mlxctl -n "__mlxctl_at 'run'" -l log -d 'Undo --no-log'
complete -c mlxctl -n "__mlxctl_at 'run'" -s h -l help -d 'Show this message and exit'

# mlxctl generate
complete -c mlxctl -n "__mlxctl_at 'generate'" -s h -l help -d 'show this help message and exit'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l quantize-activations -o qa -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l draft-model -r -f -a '(__mlxctl_models)' -d 'A smaller model with the same tokenizer, for speculative decoding'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l num-draft-tokens -r -f -d 'Tokens drafted at a time'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l temp -r -f -d 'Temperature; 0 always takes the likeliest token'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l top-p -r -f -d 'Keep the likeliest tokens that hold this much probability; 1 keeps all'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l min-p -r -f -d 'Drop tokens less likely than this share of the likeliest'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l min-tokens-to-keep -r -f -d 'Tokens that min-p always keeps'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l top-k -r -f -d 'Keep this many of the likeliest tokens; 0 keeps all'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l xtc-probability -r -f -d 'How often XTC drops the likeliest tokens'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l xtc-threshold -r -f -d 'Probability above which XTC may drop a token'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l seed -r -f -d 'Seed of the random numbers (default: a new one, reported)'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l max-tokens -s m -r -f -d 'Most tokens to generate; -1: no limit (default: what is left of the model\'s context)'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l prefill-step-size -r -f -d 'Prompt tokens processed at a time'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l kv-bits -r -f -a '2 3 4 5 6 8' -d 'Quantize the cache to this many bits'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l prompt -s p -r -f -d 'The question (\'-\' reads stdin)'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l image -r -F -d 'Image for the next placeholder of the prompt'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l prompt-cache-file -r -F -d 'Start from a prompt cache, also one that mlx_lm.cache_prompt wrote'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'generate'" -l verbose -r -f -a 'true false' -d 'True: the layout of mlx_lm.generate; False: the answer alone'
complete -c mlxctl -n "__mlxctl_at 'generate'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings, under the flags'

# mlxctl chat
complete -c mlxctl -n "__mlxctl_at 'chat'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l session -r -f -a '(__mlxctl_sessions)' -d 'Go on with the conversation of this name, or begin it'
complete -c mlxctl -n "__mlxctl_at 'chat'" -s c -l continue -d 'Go on with the last conversation'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-save -d 'Keep nothing: no conversation, no history, no record of its figures'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l pipeline -d 'Accepted as mlx_lm.chat does; in one process it does nothing'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'chat'" -o qa -l quantize-activations -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-quantize-activations -d 'Undo --quantize-activations'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l draft-model -r -f -a '(__mlxctl_models)' -d 'A smaller model with the same tokenizer, for speculative decoding'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l num-draft-tokens -r -f -d 'Tokens drafted at a time'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l dtype -r -f -a 'auto native float32 float16 bfloat16' -d 'Compute in this type; auto: float32 for half-precision models on a CPU, else as stored'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l system-file -r -F -d 'System prompt from a file'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'chat'" -s f -l file -r -F -d 'Text file that goes before the question'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-ignore-chat-template -d 'Undo --ignore-chat-template'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-use-default-chat-template -d 'Undo --use-default-chat-template'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l temp -r -f -d 'Temperature; 0 always takes the likeliest token'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l top-p -r -f -d 'Keep the likeliest tokens that hold this much probability; 1 keeps all'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l min-p -r -f -d 'Drop tokens less likely than this share of the likeliest'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l min-tokens-to-keep -r -f -d 'Tokens that min-p always keeps'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l top-k -r -f -d 'Keep this many of the likeliest tokens; 0 keeps all'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l xtc-probability -r -f -d 'How often XTC drops the likeliest tokens'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l xtc-threshold -r -f -d 'Probability above which XTC may drop a token'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l seed -r -f -d 'Seed of the random numbers (default: a new one, reported)'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l repetition-penalty -r -f -d 'Divide the logits of recent tokens; 1 does nothing'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l repetition-context-size -r -f -d 'Tokens the repetition penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l presence-penalty -r -f -d 'Take this off the logit of a recent token'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l presence-context-size -r -f -d 'Tokens the presence penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l frequency-penalty -r -f -d 'Take this off for each recent use of a token'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l frequency-context-size -r -f -d 'Tokens the frequency penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l logit-bias -r -f -d 'Add BIAS to the logit of a token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l ban -r -f -d 'Never produce this token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'chat'" -s m -l max-tokens -r -f -d 'Most tokens to generate; -1: no limit (default: what is left of the model\'s context)'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l stop -r -f -d 'Text that ends the answer; it is not printed'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l json-schema -r -F -d 'Hold the answer to a JSON schema: a file, JSON, or fields as \'name, age int\''
complete -c mlxctl -n "__mlxctl_at 'chat'" -l regex -r -f -d 'Hold the answer to a regular expression'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l grammar -r -F -d 'Hold the answer to a grammar in a file (Lark or GBNF)'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l prefill-step-size -r -f -d 'Prompt tokens processed at a time'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l kv-bits -r -f -a '2 3 4 5 6 8' -d 'Quantize the cache to this many bits'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l on-full -r -f -a 'stop rotate drop-oldest' -d 'When the context is full: stop; rotate (a cache of its size drops its oldest tokens); or show the model no more of the oldest turns'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l markdown -d 'Render the markdown of answers on a terminal'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-markdown -d 'Undo --markdown'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l stats -f -a 'auto always never json' -d 'Timing on stderr: always, never, json (default: when it is a terminal)'
complete -c mlxctl -n "__mlxctl_at 'chat'; and __mlxctl_after --stats" -f -a 'auto always never json'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-stats -d 'No timing on stderr'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l thinking -r -f -a 'show hide stderr field' -d 'Where the model\'s thinking goes in text output; field: into that of json alone'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l log-text -d 'Keep the words of prompt and answer in the history, too'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-log-text -d 'Undo --log-text'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l image -r -F -d 'Image for the next placeholder of the prompt'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l think -d 'Ask the template for thinking, or for none'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-think -d 'Undo --think'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l allow-special -d 'Let text such as <|im_end|> become the special token'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l stats-file -r -F -d 'Append the run\'s figures to this file, a JSON line a run'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l no-log -d 'Leave no record of the run in the history'
complete -c mlxctl -n "__mlxctl_at 'chat'" -l log -d 'Undo --no-log'
complete -c mlxctl -n "__mlxctl_at 'chat'" -s h -l help -d 'Show this message and exit'

# mlxctl cache
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a save -d 'Process the beginning of a prompt and keep it'
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a load -d 'Answer from a cache: the same as run --cache NAME'
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a list -d 'Caches with a name, and whether a run could use them now'
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a info -d 'What a cache holds and what it was made with'
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a verify -d 'See that a cache is as it was written, or as it would be made'
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a explain -d 'Where and why a prompt differs from a cache'
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a rm -d 'Remove caches'
complete -c mlxctl -n "__mlxctl_at 'cache' 0" -a prune -d 'Remove what is too much or too old'
complete -c mlxctl -n "__mlxctl_at 'cache'" -s h -l help -d 'Show this message and exit'

# mlxctl cache save
complete -c mlxctl -n "__mlxctl_at 'cache save' 0" -f -a '(__mlxctl_caches)'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -o qa -l quantize-activations -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-quantize-activations -d 'Undo --quantize-activations'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l draft-model -r -f -a '(__mlxctl_models)' -d 'A smaller model with the same tokenizer, for speculative decoding'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l num-draft-tokens -r -f -d 'Tokens drafted at a time'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l dtype -r -f -a 'auto native float32 float16 bfloat16' -d 'Compute in this type; auto: float32 for half-precision models on a CPU, else as stored'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l system-file -r -F -d 'System prompt from a file'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -s f -l file -r -F -d 'Text file that goes before the question'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-ignore-chat-template -d 'Undo --ignore-chat-template'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-use-default-chat-template -d 'Undo --use-default-chat-template'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l prefill-step-size -r -f -d 'Prompt tokens processed at a time'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l kv-bits -r -f -a '2 3 4 5 6 8' -d 'Quantize the cache to this many bits'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l log-text -d 'Keep the words of prompt and answer in the history, too'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-log-text -d 'Undo --log-text'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -s p -l prompt -r -f -d 'The question (\'-\' reads stdin)'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l messages -r -F -d 'JSON file with an OpenAI-style message list'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l recursive -d 'With -f take folders, and patterns such as \'src/**/*.py\', too'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l think -d 'Ask the template for thinking, or for none'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-think -d 'Undo --think'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l escapes -d 'Read \\n and \\t in the question as newline and tab'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l allow-special -d 'Let text such as <|im_end|> become the special token'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l no-log -d 'Leave no record of the run in the history'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -l log -d 'Undo --no-log'
complete -c mlxctl -n "__mlxctl_at 'cache save'" -s h -l help -d 'Show this message and exit'

# mlxctl cache load
complete -c mlxctl -n "__mlxctl_at 'cache load' 0" -f -a '(__mlxctl_caches)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -o qa -l quantize-activations -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-quantize-activations -d 'Undo --quantize-activations'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l draft-model -r -f -a '(__mlxctl_models)' -d 'A smaller model with the same tokenizer, for speculative decoding'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l num-draft-tokens -r -f -d 'Tokens drafted at a time'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l dtype -r -f -a 'auto native float32 float16 bfloat16' -d 'Compute in this type; auto: float32 for half-precision models on a CPU, else as stored'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l system-file -r -F -d 'System prompt from a file'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l prompt-template -r -f -d 'Text with places for what is asked: {prompt}, {stdin}, {files}, {file:NAME}, and {NAME} for each --param'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -s f -l file -r -F -d 'Text file that goes before the question'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-ignore-chat-template -d 'Undo --ignore-chat-template'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-use-default-chat-template -d 'Undo --use-default-chat-template'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l temp -r -f -d 'Temperature; 0 always takes the likeliest token'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l top-p -r -f -d 'Keep the likeliest tokens that hold this much probability; 1 keeps all'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l min-p -r -f -d 'Drop tokens less likely than this share of the likeliest'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l min-tokens-to-keep -r -f -d 'Tokens that min-p always keeps'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l top-k -r -f -d 'Keep this many of the likeliest tokens; 0 keeps all'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l xtc-probability -r -f -d 'How often XTC drops the likeliest tokens'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l xtc-threshold -r -f -d 'Probability above which XTC may drop a token'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l seed -r -f -d 'Seed of the random numbers (default: a new one, reported)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l repetition-penalty -r -f -d 'Divide the logits of recent tokens; 1 does nothing'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l repetition-context-size -r -f -d 'Tokens the repetition penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l presence-penalty -r -f -d 'Take this off the logit of a recent token'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l presence-context-size -r -f -d 'Tokens the presence penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l frequency-penalty -r -f -d 'Take this off for each recent use of a token'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l frequency-context-size -r -f -d 'Tokens the frequency penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l logit-bias -r -f -d 'Add BIAS to the logit of a token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l ban -r -f -d 'Never produce this token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -s m -l max-tokens -r -f -d 'Most tokens to generate; -1: no limit (default: what is left of the model\'s context)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l stop -r -f -d 'Text that ends the answer; it is not printed'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l json-schema -r -F -d 'Hold the answer to a JSON schema: a file, JSON, or fields as \'name, age int\''
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l regex -r -f -d 'Hold the answer to a regular expression'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l grammar -r -F -d 'Hold the answer to a grammar in a file (Lark or GBNF)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l prefill-step-size -r -f -d 'Prompt tokens processed at a time'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l kv-bits -r -f -a '2 3 4 5 6 8' -d 'Quantize the cache to this many bits'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l auto-cache -d 'Keep prompts that were processed, and skip what the next one has in common with them'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-auto-cache -d 'Undo --auto-cache'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l cache-max-bytes -r -f -d 'Most bytes that --auto-cache keeps on disk; the least recently used go first'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l format -r -f -a 'text json jsonl classic' -d 'How the answer is written; classic is the layout of mlx_lm.generate'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l stats -f -a 'auto always never json' -d 'Timing on stderr: always, never, json (default: when it is a terminal)'
complete -c mlxctl -n "__mlxctl_at 'cache load'; and __mlxctl_after --stats" -f -a 'auto always never json'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-stats -d 'No timing on stderr'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l thinking -r -f -a 'show hide stderr field' -d 'Where the model\'s thinking goes in text output; field: into that of json alone'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l log-text -d 'Keep the words of prompt and answer in the history, too'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-log-text -d 'Undo --log-text'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -s p -l prompt -r -f -d 'The question (\'-\' reads stdin)'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l messages -r -F -d 'JSON file with an OpenAI-style message list'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l param -r -f -d 'Fill {NAME} of the prompt template with TEXT'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l recursive -d 'With -f take folders, and patterns such as \'src/**/*.py\', too'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l image -r -F -d 'Image for the next placeholder of the prompt'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l cache-update -d 'Write the question and the answer back to the prompt cache'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l think -d 'Ask the template for thinking, or for none'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-think -d 'Undo --think'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l escapes -d 'Read \\n and \\t in the question as newline and tab'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l allow-special -d 'Let text such as <|im_end|> become the special token'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l verbose -r -f -a 'true false' -d 'True: the layout of mlx_lm.generate; False: the answer alone'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l dry-run -d 'Show the settings and the rendered prompt; load no weights'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l batch -r -F -d 'Answer every line of this file (\'-\': stdin): a prompt, or a JSON object with prompt or messages, id and settings'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l batch-size -r -f -d 'Lines of a batch that are answered at once'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l as-completed -d 'Write the results of a batch as they are done, not in the order of its lines'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l resume -r -F -d 'Leave out the lines of a batch that are answered in this file of results'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l output -r -F -d 'Write the answer to this file instead of stdout, whole or not at all'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l tee -r -F -d 'Write what goes to stdout to this file, too'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -s x -l extract -d 'Of a text answer, the first fenced block alone'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l extract-last -d 'Of a text answer, the last fenced block alone'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l top-logprobs -r -f -d 'With each token of jsonl, the likeliest N and their logprobs'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l fail-on-length -d 'Exit with 10 when the answer was cut by the token limit'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-fail-on-length -d 'Undo --fail-on-length'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l stats-file -r -F -d 'Append the run\'s figures to this file, a JSON line a run'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l no-log -d 'Leave no record of the run in the history'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -l log -d 'Undo --no-log'
complete -c mlxctl -n "__mlxctl_at 'cache load'" -s h -l help -d 'Show this message and exit'

# mlxctl cache list
complete -c mlxctl -n "__mlxctl_at 'cache list'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'cache list'" -l format -r -f -a 'text json' -d 'A table, or JSON'
complete -c mlxctl -n "__mlxctl_at 'cache list'" -s h -l help -d 'Show this message and exit'

# mlxctl cache info
complete -c mlxctl -n "__mlxctl_at 'cache info' 0" -f -a '(__mlxctl_caches)'
complete -c mlxctl -n "__mlxctl_at 'cache info'" -l text -d 'The messages that it holds, too'
complete -c mlxctl -n "__mlxctl_at 'cache info'" -l format -r -f -a 'text json' -d 'Lines, or JSON with all'
complete -c mlxctl -n "__mlxctl_at 'cache info'" -s h -l help -d 'Show this message and exit'

# mlxctl cache verify
complete -c mlxctl -n "__mlxctl_at 'cache verify'" -f -a '(__mlxctl_caches)'
complete -c mlxctl -n "__mlxctl_at 'cache verify'" -l deep -d 'Load the model, compute a sample of positions anew, and compare'
complete -c mlxctl -n "__mlxctl_at 'cache verify'" -s h -l help -d 'Show this message and exit'

# mlxctl cache explain
complete -c mlxctl -n "__mlxctl_at 'cache explain' 0" -f -a '(__mlxctl_caches)'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -o qa -l quantize-activations -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l no-quantize-activations -d 'Undo --quantize-activations'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l draft-model -r -f -a '(__mlxctl_models)' -d 'A smaller model with the same tokenizer, for speculative decoding'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l num-draft-tokens -r -f -d 'Tokens drafted at a time'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l dtype -r -f -a 'auto native float32 float16 bfloat16' -d 'Compute in this type; auto: float32 for half-precision models on a CPU, else as stored'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l system-file -r -F -d 'System prompt from a file'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l prompt-template -r -f -d 'Text with places for what is asked: {prompt}, {stdin}, {files}, {file:NAME}, and {NAME} for each --param'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -s f -l file -r -F -d 'Text file that goes before the question'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l no-ignore-chat-template -d 'Undo --ignore-chat-template'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l no-use-default-chat-template -d 'Undo --use-default-chat-template'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l kv-bits -r -f -a '2 3 4 5 6 8' -d 'Quantize the cache to this many bits'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -s p -l prompt -r -f -d 'The question (\'-\' reads stdin)'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l messages -r -F -d 'JSON file with an OpenAI-style message list'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l think -d 'Ask the template for thinking, or for none'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l no-think -d 'Undo --think'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l escapes -d 'Read \\n and \\t in the question as newline and tab'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l allow-special -d 'Let text such as <|im_end|> become the special token'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'cache explain'" -s h -l help -d 'Show this message and exit'

# mlxctl cache rm
complete -c mlxctl -n "__mlxctl_at 'cache rm'" -f -a '(__mlxctl_caches)'
complete -c mlxctl -n "__mlxctl_at 'cache rm'" -s h -l help -d 'Show this message and exit'

# mlxctl cache prune
complete -c mlxctl -n "__mlxctl_at 'cache prune'" -l max-bytes -r -f -d 'Keep this much, such as 2GB; the least recently used go first'
complete -c mlxctl -n "__mlxctl_at 'cache prune'" -l older-than -r -f -d 'Remove what was not used for this long, such as 30d'
complete -c mlxctl -n "__mlxctl_at 'cache prune'" -s h -l help -d 'Show this message and exit'

# mlxctl stats
complete -c mlxctl -n "__mlxctl_at 'stats' 0" -a show -d 'One run: its figures, its settings and where each came from'
complete -c mlxctl -n "__mlxctl_at 'stats' 0" -a replay -d 'Run one again, and see whether its tokens are the same'
complete -c mlxctl -n "__mlxctl_at 'stats' 0" -a compare -d 'Two sets of runs side by side, and whether they differ by more than noise'
complete -c mlxctl -n "__mlxctl_at 'stats' 0" -a plot -d 'Rate against context length and over time, drawn in the terminal or to a file'
complete -c mlxctl -n "__mlxctl_at 'stats' 0" -a prune -d 'Remove old runs'
complete -c mlxctl -n "__mlxctl_at 'stats'" -l model -r -f -d 'Runs of models with this in their name'
complete -c mlxctl -n "__mlxctl_at 'stats'" -l profile -r -f -a '(__mlxctl_profiles)' -d 'Runs with this profile'
complete -c mlxctl -n "__mlxctl_at 'stats'" -l since -r -f -d 'Runs since then: 7d, 12h, 2026-05-31, 2026-05-31T14:00'
complete -c mlxctl -n "__mlxctl_at 'stats'" -l last -r -f -d 'The newest N runs alone'
complete -c mlxctl -n "__mlxctl_at 'stats'" -l runs -d 'A row a run, with its number, instead of sums'
complete -c mlxctl -n "__mlxctl_at 'stats'" -l format -r -f -a 'table json jsonl csv markdown' -d 'How it is written'
complete -c mlxctl -n "__mlxctl_at 'stats'" -l explain -d 'What the columns mean, and how the ceiling of a rate comes about'
complete -c mlxctl -n "__mlxctl_at 'stats'" -s h -l help -d 'Show this message and exit'

# mlxctl stats show
complete -c mlxctl -n "__mlxctl_at 'stats show'" -l format -r -f -a 'text json' -d 'Lines, or a JSON object'
complete -c mlxctl -n "__mlxctl_at 'stats show'" -l all -d 'Settings that were left at their defaults, too'
complete -c mlxctl -n "__mlxctl_at 'stats show'" -s h -l help -d 'Show this message and exit'

# mlxctl stats replay
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l format -r -f -a 'text json' -d 'A line, or a JSON object'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l prompt-template -r -f -d 'Text with places for what is asked: {prompt}, {stdin}, {files}, {file:NAME}, and {NAME} for each --param'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l logit-bias -r -f -d 'Add BIAS to the logit of a token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l ban -r -f -d 'Never produce this token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l stop -r -f -d 'Text that ends the answer; it is not printed'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l json-schema -r -F -d 'Hold the answer to a JSON schema: a file, JSON, or fields as \'name, age int\''
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l regex -r -f -d 'Hold the answer to a regular expression'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -s p -l prompt -r -f -d 'The question (\'-\' reads stdin)'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l messages -r -F -d 'JSON file with an OpenAI-style message list'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l param -r -f -d 'Fill {NAME} of the prompt template with TEXT'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'stats replay'" -s h -l help -d 'Show this message and exit'

# mlxctl stats compare
complete -c mlxctl -n "__mlxctl_at 'stats compare'" -l format -r -f -a 'table json markdown' -d 'How it is written'
complete -c mlxctl -n "__mlxctl_at 'stats compare'" -s h -l help -d 'Show this message and exit'

# mlxctl stats plot
complete -c mlxctl -n "__mlxctl_at 'stats plot'" -l model -r -f -d 'Runs of models with this in their name'
complete -c mlxctl -n "__mlxctl_at 'stats plot'" -l profile -r -f -a '(__mlxctl_profiles)' -d 'Runs with this profile'
complete -c mlxctl -n "__mlxctl_at 'stats plot'" -l since -r -f -d 'Runs since then: 7d, 12h, 2026-05-31, 2026-05-31T14:00'
complete -c mlxctl -n "__mlxctl_at 'stats plot'" -l last -r -f -d 'The newest N runs alone'
complete -c mlxctl -n "__mlxctl_at 'stats plot'" -s o -l output -r -F -d 'Draw into this .png or .svg file (needs mlxctl[plot])'
complete -c mlxctl -n "__mlxctl_at 'stats plot'" -s h -l help -d 'Show this message and exit'

# mlxctl stats prune
complete -c mlxctl -n "__mlxctl_at 'stats prune'" -l older-than -r -f -d 'Remove runs older than this, such as 90d'
complete -c mlxctl -n "__mlxctl_at 'stats prune'" -l keep -r -f -d 'Keep the newest N runs; 0 keeps none'
complete -c mlxctl -n "__mlxctl_at 'stats prune'" -s h -l help -d 'Show this message and exit'

# mlxctl bench
complete -c mlxctl -n "__mlxctl_at 'bench'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'bench'" -s p -l n-prompt -r -f -d 'Process prompts of so many tokens: 512, or 256,1024, or a range such as 256-4096*2 or 128-512+128; 0 for none'
complete -c mlxctl -n "__mlxctl_at 'bench'" -s n -l n-gen -r -f -d 'Generate so many tokens; 0 for none'
complete -c mlxctl -n "__mlxctl_at 'bench'" -s d -l n-depth -r -f -d 'Do both behind so many tokens'
complete -c mlxctl -n "__mlxctl_at 'bench'" -s b -l batch-size -r -f -d 'Do both for so many sequences at once'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l kv-bits -r -f -d 'Quantize the cache to so many bits, from its first token on unless --quantized-kv-start says otherwise: none,8,4'
complete -c mlxctl -n "__mlxctl_at 'bench'" -s r -l repetitions -r -f -d 'Measure each test so often'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l delay -r -f -d 'Rest before each measurement, so that the machine stays cool'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l warmup -d 'Run each test once before it is measured'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l no-warmup -d 'Undo --warmup'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l exercise -d 'Instead: rates over 20 and over 200 tokens, and what they show'
complete -c mlxctl -n "__mlxctl_at 'bench'" -s o -l output -r -f -a 'md json jsonl csv' -d 'How it is written'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l compare -r -F -d 'Compare with what -o json wrote earlier: exit 11 when a test is slower by more than 5 % and by more than noise'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l explain -d 'Say how the ceilings come about'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'bench'" -o qa -l quantize-activations -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l no-quantize-activations -d 'Undo --quantize-activations'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l dtype -r -f -a 'auto native float32 float16 bfloat16' -d 'Compute in this type; auto: float32 for half-precision models on a CPU, else as stored'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l prefill-step-size -r -f -d 'Prompt tokens processed at a time'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l no-log -d 'Leave no record of the run in the history'
complete -c mlxctl -n "__mlxctl_at 'bench'" -l log -d 'Undo --no-log'
complete -c mlxctl -n "__mlxctl_at 'bench'" -s h -l help -d 'Show this message and exit'

# mlxctl inspect-template
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l tokens -d 'The prompt token by token: id, piece, special or not'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l raw -d 'The template\'s Jinja source'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l diff -r -f -d 'The prompt beside the one with another argument, such as enable_thinking=false'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l arguments -d 'The variables that the template reads'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l lint -d 'What is wrong with the template, the tokenizer and the end tokens'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l strict -d 'As --lint, and exit with 5 when there are errors'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l turns -r -f -d 'A sample conversation of so many questions, instead of a prompt'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l format -r -f -a 'text json' -d 'Text, or a JSON object with all that is asked for'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l system-file -r -F -d 'System prompt from a file'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l prompt-template -r -f -d 'Text with places for what is asked: {prompt}, {stdin}, {files}, {file:NAME}, and {NAME} for each --param'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -s f -l file -r -F -d 'Text file that goes before the question'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l no-ignore-chat-template -d 'Undo --ignore-chat-template'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l no-use-default-chat-template -d 'Undo --use-default-chat-template'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -s p -l prompt -r -f -d 'The question (\'-\' reads stdin)'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l messages -r -F -d 'JSON file with an OpenAI-style message list'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l param -r -f -d 'Fill {NAME} of the prompt template with TEXT'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l recursive -d 'With -f take folders, and patterns such as \'src/**/*.py\', too'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l chat-template-config -r -f -d 'Arguments for the chat template, as a JSON object'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l think -d 'Ask the template for thinking, or for none'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l no-think -d 'Undo --think'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l escapes -d 'Read \\n and \\t in the question as newline and tab'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l allow-special -d 'Let text such as <|im_end|> become the special token'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l offline -d 'Never use the network'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -l no-offline -d 'Undo --offline'
complete -c mlxctl -n "__mlxctl_at 'inspect-template'" -s h -l help -d 'Show this message and exit'

# mlxctl doctor
complete -c mlxctl -n "__mlxctl_at 'doctor'" -l format -r -f -a 'text json' -d 'Lines, or a JSON object'
complete -c mlxctl -n "__mlxctl_at 'doctor'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'doctor'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'doctor'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'doctor'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'doctor'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'doctor'" -s h -l help -d 'Show this message and exit'

# mlxctl profile
complete -c mlxctl -n "__mlxctl_at 'profile' 0" -a list -d 'Profiles in reach, and where each lies'
complete -c mlxctl -n "__mlxctl_at 'profile' 0" -a show -d 'What a profile comes to, and where each value is from'
complete -c mlxctl -n "__mlxctl_at 'profile' 0" -a new -d 'Write a new profile, from a command line if you like'
complete -c mlxctl -n "__mlxctl_at 'profile' 0" -a edit -d 'Change a profile in your editor; it is checked before it is saved'
complete -c mlxctl -n "__mlxctl_at 'profile' 0" -a validate -d 'Check profiles; exit status 2 if any is wrong'
complete -c mlxctl -n "__mlxctl_at 'profile' 0" -a path -d 'The file of a profile, or where profiles are looked for'
complete -c mlxctl -n "__mlxctl_at 'profile' 0" -a schema -d 'A JSON Schema of profiles, for editors'
complete -c mlxctl -n "__mlxctl_at 'profile'" -s h -l help -d 'Show this message and exit'

# mlxctl profile list
complete -c mlxctl -n "__mlxctl_at 'profile list'" -l format -r -f -a 'text json' -d 'A table, or JSON'
complete -c mlxctl -n "__mlxctl_at 'profile list'" -s h -l help -d 'Show this message and exit'

# mlxctl profile show
complete -c mlxctl -n "__mlxctl_at 'profile show' 0" -f -a '(__mlxctl_profiles)'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l origin -d 'Every value, defaults too, each with where it came from'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l format -r -f -a 'toml json' -d 'TOML (the default), or JSON'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -s P -l profile -r -f -a '(__mlxctl_profiles)' -d 'Named settings: a profile, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l unset -r -f -a '(__mlxctl_keys)' -d 'Do without the profile\'s value for KEY, such as temp or sampler.temp'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l model -r -f -a '(__mlxctl_models)' -d 'Model: a local folder, a Hugging Face repository or builtin:NAME (default: mlx-community/Llama-3.2-3B-Instruct-4bit)'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l revision -r -f -d 'Branch, tag or commit of the repository'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l adapter-path -r -f -a '(__mlxctl_folders)' -d 'Folder of a trained adapter'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l trust-remote-code -d 'Let the model\'s folder run its own Python code'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-trust-remote-code -d 'Undo --trust-remote-code'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l extra-eos-token -r -f -d 'One more token that ends the answer; id:7 for an id'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -o qa -l quantize-activations -d 'Quantize activations as the layer\'s weights are'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-quantize-activations -d 'Undo --quantize-activations'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l draft-model -r -f -a '(__mlxctl_models)' -d 'A smaller model with the same tokenizer, for speculative decoding'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l num-draft-tokens -r -f -d 'Tokens drafted at a time'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l dtype -r -f -a 'auto native float32 float16 bfloat16' -d 'Compute in this type; auto: float32 for half-precision models on a CPU, else as stored'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l system-prompt -r -f -d 'System prompt'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l system-file -r -F -d 'System prompt from a file'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l prefill-response -r -f -d 'The answer begins with this text'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l prompt-template -r -f -d 'Text with places for what is asked: {prompt}, {stdin}, {files}, {file:NAME}, and {NAME} for each --param'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -s f -l file -r -F -d 'Text file that goes before the question'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l ignore-chat-template -d 'Hand the model the bare text'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-ignore-chat-template -d 'Undo --ignore-chat-template'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l use-default-chat-template -d 'Accepted as upstream does; it has no effect there either'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-use-default-chat-template -d 'Undo --use-default-chat-template'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l temp -r -f -d 'Temperature; 0 always takes the likeliest token'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l top-p -r -f -d 'Keep the likeliest tokens that hold this much probability; 1 keeps all'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l min-p -r -f -d 'Drop tokens less likely than this share of the likeliest'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l min-tokens-to-keep -r -f -d 'Tokens that min-p always keeps'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l top-k -r -f -d 'Keep this many of the likeliest tokens; 0 keeps all'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l xtc-probability -r -f -d 'How often XTC drops the likeliest tokens'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l xtc-threshold -r -f -d 'Probability above which XTC may drop a token'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l seed -r -f -d 'Seed of the random numbers (default: a new one, reported)'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l repetition-penalty -r -f -d 'Divide the logits of recent tokens; 1 does nothing'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l repetition-context-size -r -f -d 'Tokens the repetition penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l presence-penalty -r -f -d 'Take this off the logit of a recent token'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l presence-context-size -r -f -d 'Tokens the presence penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l frequency-penalty -r -f -d 'Take this off for each recent use of a token'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l frequency-context-size -r -f -d 'Tokens the frequency penalty looks back'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l logit-bias -r -f -d 'Add BIAS to the logit of a token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l ban -r -f -d 'Never produce this token (text of one token, or id:7)'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -s m -l max-tokens -r -f -d 'Most tokens to generate; -1: no limit (default: what is left of the model\'s context)'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l stop -r -f -d 'Text that ends the answer; it is not printed'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l json-schema -r -F -d 'Hold the answer to a JSON schema: a file, JSON, or fields as \'name, age int\''
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l regex -r -f -d 'Hold the answer to a regular expression'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l grammar -r -F -d 'Hold the answer to a grammar in a file (Lark or GBNF)'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l prefill-step-size -r -f -d 'Prompt tokens processed at a time'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l max-kv-size -r -f -d 'Most tokens the cache holds; older ones are dropped'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l kv-bits -r -f -a '2 3 4 5 6 8' -d 'Quantize the cache to this many bits'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l kv-group-size -r -f -a '32 64 128' -d 'Group size of the quantized cache'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l quantized-kv-start -r -f -d 'Tokens in the cache before it is quantized'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l cache -r -f -a '(__mlxctl_caches)' -d 'Start from this prompt cache: a name, or the path of one'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l auto-cache -d 'Keep prompts that were processed, and skip what the next one has in common with them'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-auto-cache -d 'Undo --auto-cache'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l cache-max-bytes -r -f -d 'Most bytes that --auto-cache keeps on disk; the least recently used go first'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l on-full -r -f -a 'stop rotate drop-oldest' -d 'When the context is full: stop; rotate (a cache of its size drops its oldest tokens); or show the model no more of the oldest turns'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l markdown -d 'Render the markdown of answers on a terminal'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-markdown -d 'Undo --markdown'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l stats -f -a 'auto always never json' -d 'Timing on stderr: always, never, json (default: when it is a terminal)'
complete -c mlxctl -n "__mlxctl_at 'profile show'; and __mlxctl_after --stats" -f -a 'auto always never json'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-stats -d 'No timing on stderr'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l thinking -r -f -a 'show hide stderr field' -d 'Where the model\'s thinking goes in text output; field: into that of json alone'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l log-text -d 'Keep the words of prompt and answer in the history, too'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -l no-log-text -d 'Undo --log-text'
complete -c mlxctl -n "__mlxctl_at 'profile show'" -s h -l help -d 'Show this message and exit'

# mlxctl profile new
complete -c mlxctl -n "__mlxctl_at 'profile new'" -l from -r -f -d 'A command line of mlxctl run, whose settings it keeps'
complete -c mlxctl -n "__mlxctl_at 'profile new'" -l description -r -f -d 'One line about it, for `profile list`'
complete -c mlxctl -n "__mlxctl_at 'profile new'" -l user -d 'For all projects: in your configuration directory'
complete -c mlxctl -n "__mlxctl_at 'profile new'" -s h -l help -d 'Show this message and exit'

# mlxctl profile edit
complete -c mlxctl -n "__mlxctl_at 'profile edit' 0" -f -a '(__mlxctl_profiles)'
complete -c mlxctl -n "__mlxctl_at 'profile edit'" -s h -l help -d 'Show this message and exit'

# mlxctl profile validate
complete -c mlxctl -n "__mlxctl_at 'profile validate'" -f -a '(__mlxctl_profile_files)'
complete -c mlxctl -n "__mlxctl_at 'profile validate'" -s h -l help -d 'Show this message and exit'

# mlxctl profile path
complete -c mlxctl -n "__mlxctl_at 'profile path' 0" -f -a '(__mlxctl_profiles)'
complete -c mlxctl -n "__mlxctl_at 'profile path'" -s h -l help -d 'Show this message and exit'

# mlxctl profile schema
complete -c mlxctl -n "__mlxctl_at 'profile schema'" -s h -l help -d 'Show this message and exit'

# mlxctl completion
complete -c mlxctl -n "__mlxctl_at 'completion' 0" -f -a 'bash zsh fish'
complete -c mlxctl -n "__mlxctl_at 'completion'" -s h -l help -d 'Show this message and exit'
