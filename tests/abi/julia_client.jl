# The smallest client in Julia: ccall alone; see c_client.c for what it is asked.

const LIBRARY = ENV["GEAR_LIBRARY"]
const BATCH_ROWS = 64
const BATCHES_MAX = 2000
const TIMEOUT_NS = 10_000_000_000

const U8, U32, I64, F32 = UInt16(2), UInt16(6), UInt16(9), UInt16(12)

# Handles of the library: never looked into.
const Handle = Ptr{Cvoid}

struct Cell
    column::UInt32
    dtype::UInt16
    rank::UInt16
    element_bytes::UInt32
    reserved::UInt32
    data::Ptr{Cvoid}
    shape::Ptr{Int64}
    strides::Ptr{Int64}
    step_stride::Int64
end

struct SamplerOptions
    struct_size::UInt32
    mode::UInt32
    batch_rows_max::UInt32
    batches_max::UInt32
    windows::Ptr{Cvoid}
    window_count::UInt32
    anchor::UInt32
    seed::UInt64
    prefetch::UInt32
    rows_min::UInt32
    beta::Float64
    normalise::UInt32
    reserved::UInt32
end

struct Tensor
    data::Ptr{Cvoid}
    name::Ptr{UInt8}
    shape::Ptr{Int64}
    strides::Ptr{Int64}
    rank::UInt32
    dtype::UInt32
    element_bytes::UInt32
    device::UInt32
    size_bytes::UInt64
    mask::Ptr{UInt8}
    lengths::Ptr{UInt32}
    length::UInt32
    reserved::UInt32
end

function check(status)
    status == 0 && return
    name = unsafe_string(ccall((:gear_status_string, LIBRARY), Cstring, (Cint,), status))
    text = unsafe_string(ccall((:gear_last_error, LIBRARY), Cstring, ()))
    error("$name: $text")
end

values_of(language, step) = [Float32(1000 * language + 4 * step + i) + 0.5f0 for i in 0:3]
image_of(language, step) = [UInt8((31 * language + 7 * step + i) & 0xff) for i in 0:5]

cell(column, dtype, data, shape) =
    Cell(column, dtype, length(shape), 0, 0, pointer(data), pointer(shape), C_NULL, 0)

function append(writer, language, step)
    languages, steps = UInt32[language], Int64[step]
    values, image = values_of(language, step), image_of(language, step)
    scalar, values_shape, image_shape = Int64[], Int64[4], Int64[2, 3]
    GC.@preserve languages steps values image scalar values_shape image_shape begin
        cells = [cell(0, U32, languages, scalar), cell(1, I64, steps, scalar),
                 cell(2, F32, values, values_shape), cell(3, U8, image, image_shape)]
        check(ccall((:gear_writer_append, LIBRARY), Cint, (Handle, UInt32, Ptr{Cell}, Csize_t, Int64),
                    writer, 0, cells, length(cells), TIMEOUT_NS))
    end
end

function write_steps(table, language, steps)
    writer = Ref{Handle}()
    check(ccall((:gear_writer_open, LIBRARY), Cint, (Handle, Ptr{Cvoid}, Ref{Handle}), table, C_NULL, writer))
    foreach(step -> append(writer[], language, step), 0:steps-1)
    check(ccall((:gear_writer_flush, LIBRARY), Cint, (Handle, Int64, Ptr{UInt64}), writer[], TIMEOUT_NS, C_NULL))
    check(ccall((:gear_writer_close, LIBRARY), Cint, (Handle,), writer[]))
end

# The elements of a tensor as a Julia array, which is valid until the batch is released: axes in reverse.
function elements(batch, index, type, shape...)
    tensor = Ref{Tensor}()
    check(ccall((:gear_batch_tensor, LIBRARY), Cint, (Handle, UInt32, Ref{Tensor}), batch, index, tensor))
    unsafe_wrap(Array, Ptr{type}(tensor[].data), (shape..., Int(tensor[].size_bytes) ÷ (sizeof(type) * prod(shape))))
end

# Marks in `seen` the steps of `other`.
function check_batch(batch, other, seen)
    languages, steps = elements(batch, 0, UInt32), elements(batch, 1, Int64)
    values, image = elements(batch, 2, Float32, 4), elements(batch, 3, UInt8, 6)
    for row in 1:ccall((:gear_batch_rows, LIBRARY), UInt32, (Handle,), batch)
        language, step = Int(languages[row]), steps[row]
        right = 0 <= step < length(seen) && values[:, row] == values_of(language, step) &&
                image[:, row] == image_of(language, step)
        right || error("wrong cells in step $step of language $language")
        language == other && (seen[step + 1] = true)
    end
end

function read_steps(table, other, steps)
    options = Ref(SamplerOptions(sizeof(SamplerOptions), 0, BATCH_ROWS, 0, C_NULL, 0, 0, 0, 0, 0, 0.0, 0, 0))
    seen = falses(steps)
    sampler, batch = Ref{Handle}(), Ref{Handle}()
    check(ccall((:gear_sampler_open, LIBRARY), Cint, (Handle, Ref{SamplerOptions}, Ref{Handle}), table, options, sampler))
    for _ in 1:BATCHES_MAX
        check(ccall((:gear_sample, LIBRARY), Cint, (Handle, UInt32, Int64, Ref{Handle}),
                    sampler[], BATCH_ROWS, TIMEOUT_NS, batch))
        check_batch(batch[], other, seen)
        check(ccall((:gear_batch_release, LIBRARY), Cint, (Handle,), batch[]))
        all(seen) && return check(ccall((:gear_sampler_close, LIBRARY), Cint, (Handle,), sampler[]))
    end
    error("steps of language $other were never drawn")
end

function run(mode, handle, language, steps, rest...)
    client, table = Ref{Handle}(), Ref{Handle}()
    check(ccall((:gear_connect, LIBRARY), Cint, (Cstring, Ptr{Cvoid}, Ref{Handle}), "handle:$handle", C_NULL, client))
    check(ccall((:gear_table_attach, LIBRARY), Cint, (Handle, Cstring, Ref{Handle}), client[], handle, table))
    write_steps(table[], parse(Int, language), parse(Int, steps))
    mode == "read" && read_steps(table[], parse(Int, rest[1]), parse(Int, steps))
    check(ccall((:gear_close, LIBRARY), Cint, (Handle,), client[]))
end

try
    run(ARGS...)
catch failure
    println(stderr, "julia: ", sprint(showerror, failure))
    exit(1)
end
