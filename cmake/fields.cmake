# Writes docs/fields.md, the fields that policies read and write, from the comments of the headers. `make fields` runs
# this. The test `fields` runs it with -DCHECK=1 and fails if the page is stale.
cmake_minimum_required(VERSION 3.25)
cmake_path(SET root NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/..")
include(${CMAKE_CURRENT_LIST_DIR}/written.cmake)

# Replaces characters that have a meaning in CMake lists, while lines are list elements.
function(hide text out)
  string(REPLACE ";" "<semicolon>" text "${text}")
  string(REPLACE "[" "<open>" text "${text}")
  string(REPLACE "]" "<close>" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
function(shown text out)
  string(REPLACE "<semicolon>" ";" text "${text}")
  string(REPLACE "<open>" "[" text "${text}")
  string(REPLACE "<close>" "]" text "${text}")
  string(REGEX REPLACE "  +" " " text "${text}") # paragraphs of a comment
  string(STRIP "${text}" text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Wraps the text in lines of at most 120 columns.
function(wrapped text out)
  hide("${text}" text)
  string(REPLACE " " ";" words "${text}")
  set(lines "")
  set(line "")
  foreach(word IN LISTS words)
    shown("${line} ${word}" longer)
    string(LENGTH "${longer}" length)
    if(length GREATER 120)
      string(APPEND lines "${line}\n")
      set(line "${word}")
    else()
      hide("${longer}" line)
    endif()
  endforeach()
  shown("${line}" line)
  set(text "${lines}${line}")
  shown("${text}" text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# add_row(<table> <name> <type> <comment>): one line of the table; the comment may not be empty. A pipe would end a
# cell.
macro(add_row table name type comment)
  shown("${type}" row_type)
  shown("${comment}" row_comment)
  shown("${name}" row_name)
  if(row_comment STREQUAL "")
    message(FATAL_ERROR "${header}: ${row_name} of ${struct} has no comment, and docs/fields.md nothing to say of it; "
                        "expected /// above it or ///< behind it")
  endif()
  list(APPEND types ${row_type}) # whose parts are collected below
  foreach(cell IN ITEMS row_type row_comment row_name)
    string(REPLACE "|" "\\|" ${cell} "${${cell}}")
  endforeach()
  string(APPEND ${table} "| `${row_name}` | `${row_type}` | ${row_comment} |\n")
endmacro()

# fields_of(<header> <struct> <out>): the section of a struct, a class or an enum. A member is a line with the struct's
# own indentation, as clang-format writes it, with a comment before or behind it. A class shows only its const
# functions.
function(fields_of header struct out)
  set(types "${seen_types}")
  file(READ "${root}/include/sluice/${header}" text)
  hide("${text}" text)
  string(REPLACE "\n" ";" lines "${text}")
  set(inside FALSE)
  set(about "")     # the comment before the next member
  set(statement "") # a declaration that continues in the next line
  set(fields "")
  set(functions "")
  set(name "")
  set(head "")
  foreach(line IN LISTS lines)
    if(NOT inside)
      if(line MATCHES "^/// ?(.*)$")
        string(APPEND about "${CMAKE_MATCH_1} ")
      elseif(line MATCHES "^(struct|class|enum class) ${struct} .*{$")
        set(inside TRUE)
        set(sort "${CMAKE_MATCH_1}")
        set(head "${about}")
        set(about "")
      elseif(NOT line MATCHES "^template ")
        set(about "")
      endif()
      continue()
    endif()
    if(line MATCHES "^(}<semicolon>| private:)")
      break()
    endif()
    if(line MATCHES "^ +///< ?(.*)$" AND name) # continues the comment behind a field
      string(APPEND comment " ${CMAKE_MATCH_1}")
      continue()
    endif()
    if(name) # that field is complete
      add_row(fields "${name}" "${type}" "${comment}")
      set(name "")
    endif()
    if(statement STREQUAL "")
      if(line MATCHES "^  /// ?(.*)$")
        string(APPEND about "${CMAKE_MATCH_1} ")
        continue()
      elseif(line MATCHES "^  template <[^(]*$") # belongs to the line below
        continue()
      elseif(NOT line MATCHES "^  [A-Za-z<]" OR line MATCHES "^  (using|friend|static|struct|enum|requires|void) ?")
        set(about "")
        continue()
      elseif(sort STREQUAL "class" AND NOT line MATCHES "\\) const {") # it constructs or changes an object
        set(about "")
        continue()
      elseif(sort STREQUAL "enum class")
        if(NOT line MATCHES "^  ([a-z_]+),( *///< ?(.*))?$")
          message(FATAL_ERROR "${header}: '${line}' of ${struct} is no value that cmake/fields.cmake can read.")
        endif()
        add_row(fields "${CMAKE_MATCH_1}" "" "${about}${CMAKE_MATCH_3}")
        set(about "")
        continue()
      endif()
    endif()
    string(REGEX REPLACE " /\\*[a-z]+\\*/" "" line "${line}") # the name of a parameter that is not used
    string(APPEND statement " ${line}")
    # A declaration ends with its semicolon, a function with its body's first brace.
    if(statement MATCHES "^ *(<open><open>nodiscard(, [a-z:_]+)?<close><close> )?(constexpr )?([A-Za-z0-9_:<>, ]+[&*]?) ([a-z_]+)\\(([^)]*)\\) const {")
      add_row(functions "${CMAKE_MATCH_5}(${CMAKE_MATCH_6})" "${CMAKE_MATCH_4}" "${about}")
      set(statement "")
      set(about "")
    elseif(statement MATCHES "<semicolon>")
      string(REGEX MATCH "<semicolon> *(///< ?(.*))?$" tail "${statement}")
      set(comment "${about}${CMAKE_MATCH_2}")
      string(REGEX REPLACE "<semicolon>.*$" "" statement "${statement}")
      string(REGEX REPLACE " = .*$| =$|{.*$" "" statement "${statement}") # removes the initial value
      if(NOT statement MATCHES "^ *(.*[ &*])([a-z_]+)$")
        message(FATAL_ERROR "${header}: '${statement}' of ${struct} is no field that cmake/fields.cmake can read.")
      endif()
      set(type "${CMAKE_MATCH_1}")
      set(name "${CMAKE_MATCH_2}")
      set(statement "")
      set(about "")
    endif()
  endforeach()
  if(name)
    add_row(fields "${name}" "${type}" "${comment}")
  endif()
  if("${fields}${functions}" STREQUAL "")
    message(FATAL_ERROR "${header} has no ${struct} with fields: mend the list in cmake/fields.cmake.")
  endif()
  shown("${head}" head)
  wrapped("${head} ([${header}](../include/sluice/${header}))" head)
  set(section "\n## ${struct}\n\n${head}\n")
  if(sort STREQUAL "enum class")
    string(REPLACE " | `` | " " | " fields "${fields}")
    string(APPEND section "\n| value | |\n|---|---|\n${fields}")
  elseif(fields)
    string(APPEND section "\n| field | type | |\n|---|---|---|\n${fields}")
  endif()
  if(functions)
    set(title "and what follows from them")
    if(sort STREQUAL "class")
      set(title "asked for")
    endif()
    string(APPEND section "\n| ${title} | gives | |\n|---|---|---|\n${functions}")
  endif()
  set(${out} "${section}" PARENT_SCOPE)
  set(seen_types "${types}" PARENT_SCOPE)
endfunction()

set(page "# What a policy sees and answers, field by field

`make fields` makes this page from the comments of the headers; do not edit it.
[writing-a-policy.md](writing-a-policy.md) explains how the roles use these types, and
[architecture.md](architecture.md) which code writes them. A deciding policy gets a
`View`. A placement gets a `PlacementTask`, which contains one. Both refer to requests by `Slot`, and `view.row(slot)`
returns the `RequestRow`. `RequestId` and `Slot` are numbers ([units.hpp](../include/sluice/core/units.hpp)), and so are
`Seconds`, `Bytes`, `Tokens`, `TokenBlocks` (of all layers) and `LayerBlocks` (of one). These do not mix, and `count()`
returns the plain number ([units.hpp](../include/sluice/core/units.hpp)). Every other type has a section here.
")
set(seen_types "")
set(sections "")
foreach(what IN ITEMS state/view/view.hpp:View state/view/request_row.hpp:RequestRow state/view/proposal.hpp:Claim policy/placement/placement.hpp:PlacementTask
                      state/plan/plan.hpp:Plan state/plan/plan.hpp:RequestPlan state/memory/holding.hpp:Holding state/plan/plan.hpp:WeightsPlan
                      policy/placement/placement.hpp:Verdict state/view/proposal.hpp:Proposal state/view/proposal.hpp:Refusal state/view/view.hpp:Limits state/view/view.hpp:Geometry model/kv_groups.hpp:KvLayers model/kv_groups.hpp:KvBlocks model/kv_groups.hpp:KvPart model/kv_groups.hpp:ReadLimits
                      state/view/known_spec.hpp:KnownSpec workload/request.hpp:RequestSpec workload/request.hpp:Slo workload/request.hpp:SessionHints workload/request.hpp:HintSet state/view/request_row.hpp:Phase state/view/request_row.hpp:LoadMode
                      state/plan/plan.hpp:Binding
                      state/view/view.hpp:ServedSums state/view/view.hpp:OutputLengths core/layer_set.hpp:LayerSet state/memory/ledger.hpp:Ledger state/memory/ledger.hpp:Account state/memory/holding.hpp:Footprint
                      state/memory/holding.hpp:HiddenSize state/plan/plan.hpp:Window state/plan/plan.hpp:WeightStream
                      policy/transfer/pipeline.hpp:BlockLink policy/cost/work.hpp:Work policy/cost/work.hpp:ChunkWork policy/cost/work.hpp:RebuiltWork policy/cost/work.hpp:HostedWork
                      policy/cost/work.hpp:LayerRebuild)
  string(REPLACE ":" ";" what "${what}")
  list(GET what 0 header)
  list(GET what 1 struct)
  fields_of(${header} ${struct} section)
  string(APPEND page "${section}")
  list(APPEND sections ${struct})
endforeach()

# The page must describe each type that it names, or its readers would need the headers. `Cost` is a parameter.
string(REGEX MATCHALL "[A-Z][A-Za-z]+" named "${seen_types}")
list(REMOVE_DUPLICATES named)
list(REMOVE_ITEM named ${sections} Cost Effort RequestId Slot Seconds Bytes Tokens TokenBlocks LayerBlocks)
if(named)
  list(JOIN named ", " named)
  message(FATAL_ERROR "docs/fields.md names ${named}, and has no section of it: add it to the list in cmake/fields.cmake.")
endif()

write_or_check(docs/fields.md "${page}" fields)
