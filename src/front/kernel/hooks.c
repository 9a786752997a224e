/* hooks: what the parts below a kernel's body ask of those above them (FrontHooks in front/value.h). */
#include "front/core.h"
#include "front/library/lib.h"

const FrontHooks front_hooks = {
    .library_lookup = builtin_lookup,
    .python_name = builtin_python,
    .library_path = builtin_library,
    .library_near = builtin_near,
    .library_call = builtin_call,
    .attribute = front_attribute,
    .call_function = core_call_function,
    .call_values = front_call_values,
    .call_prelude = front_call_prelude,
    .regions_table = regions_table,
    .host_eval_in = host_eval_in,
    .host_eval_at = host_eval_at,
    .host_changes = host_changes,
    .host_run = host_run,
    .host_call = host_call,
    .function_value = function_value,
    .class_value = class_value,
    .apply_decorators = host_apply_decorators,
    .ask = host_ask,
    .import_module = import_module,
    .import_name = import_name,
};
